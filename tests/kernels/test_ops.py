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
        ("scaled", ("nvfp4 sr rht16", 0, RANDOM, 0, 0)),
        ("scaled", ("e4m3[row]", 1, None, 0, 0)),
        ("scaled", ("e4m3[1x128:fp32]", 0, None, 0, 0)),
        ("scaled", ("bf16", 0, None, 0, 0)),
        ("scaled_both", ("nvfp4 sr", "mxfp8", RANDOM, 0, 0, 0)),
        ("scaled_quantized", ("nvfp4-2d 4/6", "mxfp4 x3/4 sr rht32-fresh", RANDOM, 0, 1, 2)),
        ("delayed", ("e4m3[tensor] delayed sr", torch.tensor(2.0), RANDOM, 3)),
        ("amax", ()),
        ("hadamard", (16, "fixed", 0, True, None, 0)),
        ("hadamard", (32, "fresh", 1, False, RANDOM, 7)),
        ("quantize", ("mxfp6", 0, None, 0, 0)),
        ("quantize", ("e4m3[row]", 0, None, 0, 0)),
        ("quantize", ("nf4[1x16:fp32]", 0, None, 0, 0)),
        ("narrow_product", (torch.ones(40, 3), 13, "toward-zero", 8)),
    ],
)
def test_opcheck(op: str, arguments: tuple[object, ...]) -> None:
    opcheck(getattr(OPS, op).default, (sample(), *arguments))


def test_opcheck_of_dequantize() -> None:
    codes, scales, outer = kernels.quantize(sample(), "nvfp4")
    for given in (outer, None):
        opcheck(OPS.dequantize.default, (codes, scales, given, "nvfp4", (5, 40), 1))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_calls_give_the_same_numbers(dynamic: bool) -> None:
    def casts(x: torch.Tensor, random: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = kernels.round(x * 2, "bf16")
        codes = kernels.quantize(y, "mxfp4", axis=0)
        return (
            y,
            *codes,
            kernels.dequantize(*codes, "mxfp4", y.shape, axis=0),
            kernels.dequantize(codes[0], codes[1], None, "mxfp4", y.shape, axis=0),
            *kernels.scaled(y, "nvfp4 sr rht16-fresh", axis=0, random=random, sign_stream=2),
            *kernels.scaled(y, "e4m3[2x32:fp32]", axis=1),
            *kernels.scaled_both(y, "mxfp8 sr", "e4m3[row]", random=random),
            *kernels.scaled_quantized(y, "nvfp4 4/6", "nf4[1x16:fp32]"),
            *kernels.delayed(y, "e4m3[tensor] delayed(4)", kernels.amax(y) / 2),
            kernels.amax(y),
            kernels.hadamard_inverse(kernels.hadamard(y, 16, signs="fixed", axis=1), 16, signs="fixed", axis=1),
            kernels.hadamard(y, 32, signs="fresh", axis=0, random=random, sign_stream=1),
            kernels.narrow_product(y, y.T.contiguous(), mantissa_bits=13, rounding="toward-zero", promote_every=4),
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
    with pytest.raises(RuntimeError, match="mixprec::narrow_product"):
        kernels.narrow_product(x.detach(), x.T, mantissa_bits=13, rounding="toward-zero")
    with pytest.raises(RuntimeError, match="mixprec::delayed"):
        kernels.delayed(x.detach(), "e4m3[tensor] delayed", x.abs().amax())
    with pytest.raises(RuntimeError, match="requires a gradient"):
        kernels.hadamard(x, 16, signs="none", axis=1, out=torch.empty(5, 48))
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
        lambda: kernels.hadamard(x, 16, signs="none", axis=1),
        lambda: kernels.scaled_quantized(x, "mxfp8", "mxfp8"),
        lambda: kernels.delayed(x, "e4m3[tensor] delayed", torch.ones(())),
        lambda: kernels.narrow_product(x, x, mantissa_bits=13, rounding="toward-zero"),
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
    with pytest.raises(ValueError, match="a freshly signed cast to e2m1 needs random"):
        kernels.quantize(sample(), "mxfp4 rht32-fresh")
    with pytest.raises(ValueError, match="random"):
        kernels.scaled_quantized(sample(), "mxfp4 sr", "mxfp4")
    with pytest.raises(ValueError, match="a transform with fresh signs needs random"):
        kernels.hadamard(sample(), 16, signs="fresh", axis=1)
    assert kernels.scaled(sample(), "mxfp4 rht32", axis=1)[0].shape == (5, 64)  # fixed signs need none


def test_wrong_shapes_axes_and_casts_are_refused() -> None:
    with pytest.raises(ValueError, match="matrix"):
        kernels.scaled(torch.ones(2, 3, 4), "mxfp4", axis=1)
    with pytest.raises(ValueError, match="axis"):
        kernels.scaled(sample(), "mxfp4", axis=2)
    with pytest.raises(ValueError, match="scaled"):
        kernels.round(sample(), "mxfp4")
    with pytest.raises(ValueError, match="size 12"):
        kernels.hadamard(sample(), 12, signs="none", axis=1)
    with pytest.raises(ValueError, match="got signs 'random'"):
        kernels.hadamard(sample(), 16, signs="random", axis=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"shapes \(5, 40\) and \(5, 40\): expected \[M, K\] and \[K, N\]"):
        kernels.narrow_product(sample(), sample(), mantissa_bits=13, rounding="toward-zero")
    with pytest.raises(ValueError, match="expected 1 to 22 bits"):
        kernels.narrow_product(sample(), sample().T, mantissa_bits=23, rounding="toward-zero")
    with pytest.raises(ValueError, match="expected nearest-even or toward-zero"):
        kernels.narrow_product(sample(), sample().T, mantissa_bits=13, rounding="stochastic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="e4m4"):
        kernels.round(sample(), "e4m4x")


def test_a_delayed_scale_needs_an_amax_and_no_other_takes_one() -> None:
    for call in (
        lambda: kernels.scaled(sample(), "e4m3[tensor] delayed", axis=1),
        lambda: kernels.quantize(sample(), "e4m3[tensor] delayed"),
        lambda: kernels.scaled_both(sample(), "mxfp8", "e4m3[tensor] delayed"),
    ):
        with pytest.raises(ValueError, match=r"give their amax to mixprec.kernels.delayed"):
            call()
    with pytest.raises(ValueError, match="takes its scale from the tensor itself"):
        kernels.delayed(sample(), "e4m3[tensor]", torch.ones(()))
    for amax in (torch.ones(1), torch.ones((), dtype=torch.float64)):
        with pytest.raises(ValueError, match="expected one float32 number"):
            kernels.delayed(sample(), "e4m3[tensor] delayed", amax)


def test_results_go_into_given_tensors() -> None:
    x = sample()
    carrier, outer = kernels.scaled(x, "nvfp4 sr rht16-fresh", axis=0, random=RANDOM, sign_stream=3)
    out = torch.empty(16, 40)
    got = kernels.scaled(x, "nvfp4 sr rht16-fresh", axis=0, random=RANDOM, sign_stream=3, out=out)
    assert got[0] is out
    assert torch.equal(out, carrier)
    assert torch.equal(got[1], outer)
    with pytest.raises(ValueError, match=r"out is \[5, 40\].*of shape \[16, 40\]"):
        kernels.scaled(x, "nvfp4 rht16", axis=0, out=torch.empty(5, 40))
    codes, scales, outer = kernels.quantize(x, "nvfp4")
    values = kernels.dequantize(codes, scales, outer, "nvfp4", x.shape, out=torch.empty(5, 40))
    assert torch.equal(values, kernels.dequantize(codes, scales, outer, "nvfp4", x.shape))
    out = torch.empty(5, 40)
    assert kernels.scaled_quantized(x, "bf16", "mxfp4", out=out)[0] is out
    assert kernels.delayed(x, "e4m3[tensor] delayed", torch.ones(()), out=out)[0] is out
    assert torch.equal(out, kernels.delayed(x, "e4m3[tensor] delayed", torch.ones(()))[0])


def test_sign_streams_choose_sign_vectors() -> None:
    """A transform of its own, a cast and a cast of two flip alike if their sign streams are the same."""
    x = sample()
    flipped = kernels.hadamard(x, 16, signs="fresh", axis=1, random=RANDOM, sign_stream=9)
    alike, _ = kernels.scaled(x, "fp16[row] rht16-fresh", axis=1, random=RANDOM, stream=4, sign_stream=9)
    right, _ = kernels.scaled(flipped, "fp16[row]", axis=1)
    assert torch.equal(alike, right)
    both = kernels.scaled_both(x, "bf16", "mxfp4 sr rht16-fresh", random=RANDOM, stream=4, sign_streams=(0, 9))
    assert torch.equal(
        both[2], kernels.scaled(x, "mxfp4 sr rht16-fresh", axis=0, random=RANDOM, stream=5, sign_stream=9)[0]
    )
    others = [kernels.hadamard(x, 16, signs="fresh", axis=1, random=RANDOM, sign_stream=i) for i in range(8)]
    assert len({tuple(other.flatten().tolist()) for other in (flipped, *others)}) == 9
    back = kernels.hadamard_inverse(flipped, 16, signs="fresh", axis=1, random=RANDOM, sign_stream=9)
    torch.testing.assert_close(back[:, :40], x, rtol=0, atol=1e-6)


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
    for cast in (
        "mxfp6",
        "nvfp4 rht64",
        "nvfp4-2d rht16",
        "e4m3[row]",
        "e4m3[3x7:fp32]",
        "e5m2[tensor]",
        "bf16",
        "nf4",
    ):
        for axis in (0, 1):
            real = kernels.quantize(sample(), cast, axis=axis)
            meta = kernels.quantize(sample().to("meta"), cast, axis=axis)
            assert [(t.shape, t.dtype) for t in meta] == [(t.shape, t.dtype) for t in real]
