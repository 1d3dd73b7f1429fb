"""Results into a tensor that exists."""

from __future__ import annotations

import pytest
import torch

import mixprec
from mixprec import kernels
from mixprec.specs import parse_cast


@pytest.mark.parametrize(
    "cast",
    [
        "bf16",
        "e4m3 sr",
        "e4m3[tensor]",
        "e4m3[row]",
        "mxfp8",
        "nvfp4",
        "nvfp4-2d",
        "mxfp4 sr",
        "mxfp4 x3/4 sr",
        "e4m3[1x16:fp32]",
        "e4m3[row:e8m0] rceil",
        "nvfp4 4/6",
        "nf4[2x16:fp32] sr",
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_same_numbers_go_into_out(cast: str, dtype: torch.dtype) -> None:
    x = torch.randn(3, 5, 40).to(dtype)
    out = torch.full((3, 5, 40), float("nan"))
    got = mixprec.fake_quantize(x, cast, seed=3, out=out)
    assert torch.equal(got, mixprec.fake_quantize(x, cast, seed=3))
    assert torch.equal(got, out)
    assert got.data_ptr() == out.data_ptr()


@pytest.mark.parametrize("backend", kernels.backend_names())
def test_every_backend_takes_out(backend: str) -> None:
    try:
        kernel = kernels.get_backend(backend)
    except ImportError:
        pytest.skip(f"{backend} is not built here")
    x, out = torch.randn(4, 64), torch.empty(4, 64)
    parameters = kernels.cast_parameters(parse_cast("mxfp8 rceil"))
    carrier, _ = kernel.scaled(x, parameters, 1, kernels.Draw(), out=out)
    assert carrier.data_ptr() == out.data_ptr()
    assert torch.equal(out, kernels.scaled(x, "mxfp8 rceil", axis=1)[0])


@pytest.mark.parametrize(
    "out",
    [torch.empty(4, 32), torch.empty(32, 4).t(), torch.empty(4, 33, dtype=torch.float64), torch.empty(4, 66)[:, ::2]],
)
@pytest.mark.parametrize("cast", ["bf16", "mxfp8"])
def test_an_out_that_does_not_fit_is_refused(cast: str, out: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="out is"):
        mixprec.fake_quantize(torch.randn(4, 33), cast, out=out)


def test_out_may_not_be_x_nor_lose_a_gradient() -> None:
    x = torch.randn(4, 32)
    with pytest.raises(ValueError, match="shares its memory"):
        mixprec.fake_quantize(x, "mxfp8", out=x)
    with pytest.raises(RuntimeError, match="detach"):
        mixprec.fake_quantize(x.requires_grad_(), "bf16", out=torch.empty(4, 32))
    with pytest.raises(ValueError, match="transform"):
        mixprec.fake_quantize(torch.randn(4, 32), "mxfp4 rht32", out=torch.empty(4, 32))
