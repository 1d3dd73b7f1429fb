"""Quantized tensors and fake quantization."""

import pytest
import torch

from mixprec.specs import Cast, parse_cast
from mixprec.tensors import QuantizedTensor, fake_quantize, quantize

CASTS = [
    "bf16",
    "e4m3",
    "nf4",
    "e4m3[tensor]",
    "e4m3[row]",
    "e4m3fnuz[row:e8m0] x3/4",
    "mxfp8 rceil",
    "mxfp6",
    "mxfp4 sr",
    "mxfp4 x3/4 sr",
    "nvfp4",
    "nvfp4 4/6",
    "nvfp4-2d",
    "mxint8",
    "e4m3[1x16:fp32]",
    "e4m3[2x16:fp32] sr",
    "nf4[1x16:fp32]",
    "int4[row]",
    "e2m1[1x16:ue5m3]",
]


def sample(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "cast", [*CASTS, "nvfp4 sr rht16", "mxfp4 ht32", "mxfp4 x3/4 sr rht64-fresh", "int8[row] rht16"]
)
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


@pytest.mark.parametrize("cast", ["mxfp8 rht32", "mxfp8 ht16", "mxfp8 rht64-fresh", "e4m3[row] rht128-fresh"])
def test_a_transform_is_undone(cast: str) -> None:
    x = sample(8, 50)
    for values in (
        fake_quantize(x, cast, seed=5),
        quantize(x, cast, seed=5).dequantize(),
        quantize(x, cast, seed=5, offset=2**40).dequantize(),
    ):
        assert (values - x).norm() / x.norm() < 0.04


def test_fresh_signs_depend_on_seed_and_offset() -> None:
    x = sample(4, 64)
    with pytest.raises(ValueError, match="draws random bits and needs a seed"):
        quantize(x, "mxfp4 rht32-fresh")
    kept = [quantize(x, "mxfp4 rht32-fresh", seed=seed, offset=offset) for seed, offset in ((0, 0), (1, 0), (0, 1))]
    assert len({tuple(q.codes.flatten().tolist()) for q in kept}) == 3
    assert [(q.seed, q.offset) for q in kept] == [(0, 0), (1, 0), (0, 1)]
    assert torch.equal(kept[1].dequantize(), fake_quantize(x, "mxfp4 rht32-fresh", seed=1))
    assert (quantize(x, "mxfp4", seed=7).seed, quantize(x, "mxfp4 rht32", seed=7).seed) == (0, 0)


def test_a_delayed_scale_takes_the_amax_that_is_given() -> None:
    x = torch.tensor([1.0, -8.0, 0.3])
    assert fake_quantize(x, "e4m3[tensor] delayed", amax=4.0).tolist() == pytest.approx([1.0, -4.0, 0.3], rel=0.06)
    assert torch.equal(
        fake_quantize(x, "e4m3[tensor] delayed", amax=torch.tensor(0.0)), fake_quantize(x, "e4m3[tensor]")
    )
    for cast in ("e4m3[tensor] delayed(16,recent,2) sr", "e5m2[tensor:e8m0] delayed propagate", "nf4[tensor] delayed"):
        quantized = quantize(x, cast, seed=1, amax=0.5)
        assert torch.equal(quantized.dequantize(), fake_quantize(x, cast, seed=1, amax=0.5))
    out = torch.empty(3)
    assert fake_quantize(x, "e4m3[tensor] delayed", amax=4.0, out=out).data_ptr() == out.data_ptr()


def test_a_delayed_scale_without_amax_is_refused_and_so_is_an_amax_without() -> None:
    for function in (quantize, fake_quantize):
        with pytest.raises(ValueError, match="of which one tensor knows nothing: pass amax="):
            function(sample(4), "e4m3[tensor] delayed")
        with pytest.raises(ValueError, match="takes its scale from the tensor itself: leave out amax"):
            function(sample(4), "e4m3[tensor]", amax=1.0)


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
        ("e4m3[1x128:fp32]", 8.25),
        ("e4m3[128x128:fp32]", 8 + 32 / 128**2),
        ("nf4[1x64:fp32]", 4.5),
        ("e4m3[row]", 8 + 32 / 256),
        ("e4m3[row:e8m0]", 8 + 32 / 256),
        ("int4[row]", 4 + 32 / 256),
        ("e2m1[1x16:ue4m3]", 4.5),
        ("mxfp4 rht64", 4.25),
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
    for cast in (
        "mxfp4",
        "nvfp4",
        "nvfp4 4/6",
        "e2m1[tensor]",
        "e4m3[row]",
        "nf4[1x16:fp32]",
        "e2m1[1x16:ue5m3]",
        "int4[tensor:e8m0]",
    ):
        assert quantize(x, cast).dequantize().isnan().all()
        assert fake_quantize(x, cast).isnan().all()
    for cast in ("e2m1", "nf4", "int4"):
        with pytest.raises(ValueError, match="no code for NaN"):
            quantize(x, cast)
    assert fake_quantize(x, "int8[tensor] delayed", amax=3.0).isnan().tolist() == [False, True, False]
    with pytest.raises(ValueError, match="no code for NaN"):
        quantize(x, "int8[tensor] delayed", amax=3.0)


@pytest.mark.parametrize(
    "cast",
    ["bf16", "nvfp4 sr rht16", "mxfp4 x3/4 sr rht32-fresh", "e4m3[2x16:fp32]", "nvfp4 4/6", parse_cast("mxfp8 rceil")],
)
def test_fake_quantize_compiles_whole(cast: str | Cast) -> None:
    compiled = torch.compile(lambda x: fake_quantize(x, cast, seed=3), backend="aot_eager", fullgraph=True)
    x = sample(5, 40)
    assert torch.equal(compiled(x), fake_quantize(x, cast, seed=3))


def test_a_delayed_cast_compiles_whole() -> None:
    def cast(x: torch.Tensor, amax: torch.Tensor) -> torch.Tensor:
        return fake_quantize(x, "e4m3[tensor] delayed(4)", amax=amax)

    x, amax = sample(5, 40), torch.tensor(1.0)
    assert torch.equal(torch.compile(cast, backend="aot_eager", fullgraph=True)(x, amax), cast(x, amax))
