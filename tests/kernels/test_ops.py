"""The torch operations: shapes, refusals, compilation."""

import pytest
import torch
from torch.library import opcheck

from mixprec import kernels

RANDOM = torch.tensor([3, 4])
OPS = torch.ops.mixprec


def sample() -> torch.Tensor:
    return torch.randn(5, 40, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("round", ("e4m3 sr", RANDOM, 1)),
        ("scaled", ("nvfp4 sr rht16", 0, RANDOM, 0)),
        ("scaled", ("e4m3[row]", 1, None, 0)),
        ("scaled_both", ("nvfp4 sr", "mxfp8", RANDOM, 0)),
        ("amax", ()),
        ("hadamard", (16, True, 0, True)),
        ("quantize", ("mxfp6", 0, None, 0)),
        ("quantize", ("e4m3[row]", 0, None, 0)),
    ],
)
def test_opcheck(op: str, arguments: tuple[object, ...]) -> None:
    opcheck(getattr(OPS, op).default, (sample(), *arguments))


def test_opcheck_of_dequantize() -> None:
    codes, scales, outer = kernels.quantize(sample(), "nvfp4")
    opcheck(OPS.dequantize.default, (codes, scales, outer, "nvfp4", (5, 40), 1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls_give_the_same_numbers(dynamic: bool) -> None:
    def casts(x: torch.Tensor, random: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = kernels.round(x * 2, "bf16")
        codes = kernels.quantize(y, "mxfp4", axis=0)
        return (
            y,
            *codes,
            kernels.dequantize(*codes, "mxfp4", y.shape, axis=0),
            *kernels.scaled(y, "nvfp4 sr rht16", axis=0, random=random),
            *kernels.scaled_both(y, "mxfp8 sr", "e4m3[row]", random=random),
            kernels.amax(y),
            kernels.hadamard_inverse(kernels.hadamard(y, 16, signs=True, axis=1), 16, signs=True, axis=1),
        )

    compiled = torch.compile(casts, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for columns in (40, 33):
        x = sample()[:, :columns]
        for got, right in zip(compiled(x, RANDOM), casts(x, RANDOM), strict=True):
            assert torch.equal(got, right)


def test_an_input_that_requires_a_gradient_is_refused() -> None:
    x = sample().requires_grad_()
    with pytest.raises(RuntimeError, match="requires a gradient"):
        kernels.round(x, "bf16")
    with pytest.raises(RuntimeError, match="mixprec::scaled_both"):
        kernels.scaled_both(x, "mxfp8", "mxfp8")
    with torch.no_grad():
        assert not kernels.round(x, "bf16").requires_grad
    assert not kernels.round(x.detach(), "bf16").requires_grad


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float64, torch.uint8])
def test_other_dtypes_are_refused_with_advice(dtype: torch.dtype) -> None:
    x = torch.ones(2, 2).to(dtype)
    for call in (
        lambda: kernels.round(x, "bf16"),
        lambda: kernels.scaled(x, "mxfp8", axis=1),
        lambda: kernels.quantize(x, "mxfp8"),
        lambda: kernels.amax(x),
        lambda: kernels.hadamard(x, 16, signs=False, axis=1),
    ):
        with pytest.raises(TypeError, match="first"):
            call()


def test_a_stochastic_cast_needs_random_bits() -> None:
    with pytest.raises(ValueError, match=r"torch.tensor\(\[seed, offset\]\)"):
        kernels.round(sample(), "bf16 sr")
    with pytest.raises(ValueError, match="float32"):
        kernels.scaled(sample(), "mxfp4 sr", axis=1, random=torch.ones(2))
    with pytest.raises(ValueError, match="random"):
        kernels.scaled_both(sample(), "mxfp4", "mxfp4 sr")


def test_wrong_shapes_axes_and_casts_are_refused() -> None:
    with pytest.raises(ValueError, match="matrix"):
        kernels.scaled(torch.ones(2, 3, 4), "mxfp4", axis=1)
    with pytest.raises(ValueError, match="axis"):
        kernels.scaled(sample(), "mxfp4", axis=2)
    with pytest.raises(ValueError, match="scaled"):
        kernels.round(sample(), "mxfp4")
    with pytest.raises(ValueError, match="size 12"):
        kernels.hadamard(sample(), 12, signs=False, axis=1)
    with pytest.raises(ValueError, match="e4m4"):
        kernels.round(sample(), "e4m4x")


def test_streams_are_offsets() -> None:
    x = sample()
    right = kernels.round(x, "e2m1 sr", random=torch.tensor([3, 9]))
    assert torch.equal(kernels.round(x, "e2m1 sr", random=RANDOM, stream=5), right)
    wrapped = kernels.round(x, "e2m1 sr", random=torch.tensor([3, 2**63 - 1]), stream=1)
    assert torch.equal(wrapped, kernels.round(x, "e2m1 sr", random=torch.tensor([3, -(2**63)])))


def test_a_cast_may_be_given_as_an_object() -> None:
    from mixprec.specs import parse_cast

    x = sample()
    assert torch.equal(kernels.scaled(x, parse_cast("nvfp4"), axis=1)[0], kernels.scaled(x, "nvfp4", axis=1)[0])


def test_meta_tensors_have_the_shapes_of_real_ones() -> None:
    for cast in ("mxfp6", "nvfp4 rht64", "e4m3[row]", "e5m2[tensor]", "bf16"):
        for axis in (0, 1):
            real = kernels.quantize(sample(), cast, axis=axis)
            meta = kernels.quantize(sample().to("meta"), cast, axis=axis)
            assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in real]
