"""Quantized tensors and fake quantization."""

import pytest
import torch

from mixprec.specs import Cast, parse_cast
from mixprec.tensors import QuantizedTensor, fake_quantize, quantize

CASTS = ["bf16", "e4m3", "e4m3[tensor]", "e4m3[row]", "mxfp8 rceil", "mxfp6", "mxfp4 sr", "nvfp4", "nvfp4-2d", "mxint8"]


def sample(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("cast", [*CASTS, "nvfp4 sr rht16", "mxfp4 ht32"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 40), (2, 3, 33), (0,), (4, 0), (0, 4), (2, 0, 3)])
def test_codes_give_the_values_of_fake_quantize(cast: str, shape: tuple[int, ...]) -> None:
    x = sample(*shape)
    values = fake_quantize(x, cast, seed=3)
    assert values.shape == x.shape
    assert values.dtype == torch.float32
    assert torch.equal(quantize(x, cast, seed=3).dequantize(), values)


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_inputs_are_widened(cast: str, dtype: torch.dtype) -> None:
    x = sample(6, 50).to(dtype)
    assert torch.equal(fake_quantize(x, cast), fake_quantize(x.float(), cast))
    assert quantize(x, cast, seed=0).dtype == dtype


@pytest.mark.parametrize("cast", CASTS)
def test_strides_do_not_matter(cast: str) -> None:
    x = sample(6, 50, 4)
    for view in (x.permute(2, 0, 1), x[:, ::3], x[1].T, x[..., 1:2].expand(6, 50, 5)):
        assert torch.equal(fake_quantize(view, cast), fake_quantize(view.contiguous(), cast))
        assert torch.equal(quantize(view, cast, seed=0).codes, quantize(view.contiguous(), cast, seed=0).codes)


def test_blocks_lie_along_the_last_axis() -> None:
    x = torch.ones(2, 64)
    x[0, :32] = 1000.0
    assert torch.equal(fake_quantize(x, "mxfp4"), torch.where(x == 1000.0, 768.0, x))


def test_a_transform_is_undone() -> None:
    x = sample(8, 50)
    difference = (fake_quantize(x, "mxfp8 rht32") - x).norm() / x.norm()
    assert difference < 0.04


@pytest.mark.parametrize(
    ("cast", "bits"),
    [
        ("mxfp8", 8.25),
        ("mxfp6", 6.25),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
        ("nvfp4-2d", 4.03),
        ("bf16", 16),
        ("e4m3[tensor]", 8),
    ],
)
def test_bits_per_element(cast: str, bits: float) -> None:
    quantized = quantize(sample(256, 256), cast)
    assert quantized.bits_per_element == pytest.approx(bits, rel=1e-3)
    assert quantized.nbytes == quantized.bits_per_element * 256 * 256 / 8


def test_attributes_and_text() -> None:
    quantized = quantize(sample(2, 3, 32), "nvfp4")
    assert isinstance(quantized, QuantizedTensor)
    assert quantized.cast == parse_cast("nvfp4")
    assert quantized.shape == (2, 3, 32)
    assert quantized.codes.shape == (6, 16)
    assert quantized.scales.shape == (6, 2)
    assert "nvfp4" in repr(quantized)
    assert "(2, 3, 32)" in repr(quantized)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64, torch.complex64])
def test_other_dtypes_are_refused_with_advice(dtype: torch.dtype) -> None:
    for function in (quantize, fake_quantize):
        for cast in ("bf16", "mxfp4"):
            with pytest.raises(TypeError, match="first"):
                function(torch.ones(4).to(dtype), cast)


def test_seeds() -> None:
    x = sample(4, 64)
    assert torch.equal(fake_quantize(x, "mxfp4 sr", seed=1), fake_quantize(x, "mxfp4 sr", seed=1))
    assert not torch.equal(fake_quantize(x, "mxfp4 sr", seed=1), fake_quantize(x, "mxfp4 sr", seed=2))
    assert torch.equal(quantize(x, "mxfp4 sr", seed=1).dequantize(), fake_quantize(x, "mxfp4 sr", seed=1))
    assert not torch.equal(quantize(x, "mxfp4 sr", seed=1, offset=1).codes, quantize(x, "mxfp4 sr", seed=1).codes)
    with pytest.raises(ValueError, match="seed"):
        quantize(x, "mxfp4 sr")


def test_gradients_are_refused_where_they_would_be_lost() -> None:
    x = sample(4, 64).requires_grad_()
    with pytest.raises(RuntimeError, match="requires a gradient"):
        fake_quantize(x, "mxfp4")
    assert not quantize(x, "mxfp4").dequantize().requires_grad


def test_nan_is_never_hidden() -> None:
    x = torch.tensor([1.0, float("nan"), 3.0])
    assert fake_quantize(x, "e2m1").isnan().tolist() == [False, True, False]
    assert quantize(x, "e4m3").dequantize().isnan().tolist() == [False, True, False]
    for cast in ("mxfp4", "nvfp4", "e2m1[tensor]", "e4m3[row]"):
        assert quantize(x, cast).dequantize().isnan().all()
        assert fake_quantize(x, cast).isnan().all()
    with pytest.raises(ValueError, match="no code for NaN"):
        quantize(x, "e2m1")


@pytest.mark.parametrize("cast", ["bf16", "nvfp4 sr rht16", parse_cast("mxfp8 rceil")])
def test_fake_quantize_compiles_whole(cast: str | Cast) -> None:
    compiled = torch.compile(lambda x: fake_quantize(x, cast, seed=3), backend="aot_eager", fullgraph=True)
    x = sample(5, 40)
    assert torch.equal(compiled(x), fake_quantize(x, cast, seed=3))
