"""NVFP4 casts equal those of torchao, with and without the tensor's scale."""

import warnings

import pytest
import torch
from torch import Tensor

from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast

from .tensors import MATRICES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    nvfp4_tensor = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")

SMALLEST_NORMAL = 2.0**-6


def of_torchao(x: Tensor, tensor_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """Codes and codes of the scales."""
    made = nvfp4_tensor.NVFP4Tensor.to_nvfp4(x, per_tensor_scale=tensor_scale)
    return made.qdata, made.scale.view(torch.uint8)


def check(backend: Backend, x: Tensor, cast: str, tensor_scale: Tensor | None) -> float:
    """Equal where torchao does not raise the scale to E4M3's smallest normal number; the share of such blocks."""
    right, right_scales = of_torchao(x, tensor_scale)
    codes, scales, _ = backend.quantize(x, cast_parameters(parse_cast(cast)), 1, Draw())
    amax = x.abs().reshape(x.shape[0], -1, 16).amax(2) / 6 / (1.0 if tensor_scale is None else tensor_scale)
    plain = amax >= SMALLEST_NORMAL
    assert torch.equal(scales[plain], right_scales[plain])
    in_plain = plain.repeat_interleave(8, 1)  # two codes a byte
    assert torch.equal(codes[in_plain], right[in_plain])
    assert (right_scales[~plain] == 0x08).all()
    return 1 - plain.double().mean().item()


@pytest.mark.parametrize("matrix", MATRICES)
def test_codes_without_tensor_scale_are_those_of_torchao(backend: Backend, matrix: str) -> None:
    """The difference: torchao's scale is at least 2**-6; here down to 2**-9, and 1 where that is zero."""
    raised = check(backend, MATRICES[matrix](), "e2m1[1x16:e4m3]", None)
    assert raised == 0.0 or matrix in ("binades", "ends", "ties")


@pytest.mark.parametrize("matrix", ["normal", "heavy-tailed", "ties", "ends"])
def test_codes_under_a_tensor_scale_are_those_of_torchao(backend: Backend, matrix: str) -> None:
    """The orders of rounding differ (here a product, there a quotient), which no number of these shows."""
    x = MATRICES[matrix]()
    check(backend, x, "nvfp4", nvfp4_tensor.per_tensor_amax_to_scale(x.abs().max()))


def test_powers_of_two_as_tensor_scale_leave_no_room_for_differences(backend: Backend) -> None:
    for exponent in (-9, 0, 5):
        x = MATRICES["heavy-tailed"]()
        x = x.clamp(-2688.0, 2688.0)
        x[3, 7] = 2688.0
        x *= 2.0**exponent
        check(backend, x, "nvfp4", nvfp4_tensor.per_tensor_amax_to_scale(x.abs().max()))
