"""Casts to 8 bits under scales of tensors, rows and fp32 blocks equal those of torchao's training."""

import warnings

import pytest
import torch
from torch import Tensor

from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast

from .tensors import MATRICES

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    float8_utils = pytest.importorskip("torchao.float8.float8_utils")
    float8_config = pytest.importorskip("torchao.float8.config")
    int8 = pytest.importorskip("torchao.prototype.quantized_training.int8")

DTYPES = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
}
GRANULARITIES = {"tensor": "TENSORWISE", "row": "AXISWISE"}


def of_torchao(x: Tensor, element: str, tile: str, power_of_two: bool) -> tuple[Tensor, Tensor]:
    """Codes and ``quant_scale``."""
    scale = float8_utils.tensor_to_scale(
        x,
        DTYPES[element],
        scaling_granularity=float8_config.ScalingGranularity[GRANULARITIES[tile]],
        axiswise_dim=1 if tile == "row" else None,
        round_scales_to_power_of_2=power_of_two,
    )
    return float8_utils.to_fp8_saturated(x * scale, DTYPES[element]).view(torch.uint8), scale


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("tile", ["tensor", "row"])
@pytest.mark.parametrize("element", DTYPES)
def test_codes_and_scales_are_those_of_torchao(backend: Backend, element: str, tile: str, matrix: str) -> None:
    """The difference: an amax below 1e-12, zero too, counts there as 1e-12; the values are divided, not multiplied."""
    x = MATRICES[matrix]()
    right, scale = of_torchao(x, element, tile, power_of_two=False)
    parameters = cast_parameters(parse_cast(f"{element}[{tile}]"))
    codes, _, outer = backend.quantize(x, parameters, 1, Draw())
    assert codes.equal(right)
    has_numbers = (x != 0).any(1, keepdim=True) if tile == "row" else torch.tensor(True)
    assert torch.equal(outer[has_numbers], (1 / scale).reshape(outer.shape)[has_numbers])
    values = backend.dequantize(codes, torch.empty(0, dtype=torch.uint8), outer, parameters, x.shape, 1)
    theirs = codes.view(DTYPES[element]).float() / scale
    assert ((values - theirs).abs() <= 2.0**-23 * theirs.abs()).all()


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("tile", ["tensor", "row"])
@pytest.mark.parametrize("element", DTYPES)
def test_power_of_two_scales_are_those_of_torchao(backend: Backend, element: str, tile: str, matrix: str) -> None:
    """The difference: its log2 in fp32 loses an amax just above a power of two times the format's largest value."""
    x = MATRICES[matrix]()
    right, scale = of_torchao(x, element, tile, power_of_two=True)
    codes, _, outer = backend.quantize(x, cast_parameters(parse_cast(f"{element}[{tile}:e8m0] rceil")), 1, Draw())
    theirs = (1 / scale).reshape(outer.shape)
    amax = x.abs().amax(1, keepdim=True) if tile == "row" else x.abs().amax()
    nonzero = amax > 0
    differs = (outer != theirs) & nonzero
    significand = torch.frexp(amax / torch.finfo(DTYPES[element]).max)[0][differs]
    assert ((significand >= 0.5) & (significand <= 0.5 + 2.0**-23)).all()
    assert torch.equal(outer[differs], 2 * theirs[differs])
    assert matrix == "ends" or not differs.any()
    alike = (~differs).expand(x.shape)
    assert torch.equal(codes[alike], right[alike])


@pytest.mark.parametrize("matrix", MATRICES)
def test_rows_of_int8_are_those_of_torchao(backend: Backend, matrix: str) -> None:
    x = MATRICES[matrix]()
    right, _ = int8.quantize_int8_rowwise(x)
    codes, _, _ = backend.quantize(x, cast_parameters(parse_cast("int8[row]")), 1, Draw())
    assert codes.equal(right.view(torch.uint8))


def test_blocks_of_fp32_scales_are_those_of_torchao(backend: Backend) -> None:
    """DeepSeek's 1x128 along either axis, and 128x128."""
    kernels = pytest.importorskip("torchao.prototype.blockwise_fp8_training.kernels", exc_type=ImportError)
    for matrix in ("normal", "heavy-tailed", "binades", "ties"):
        x = MATRICES[matrix]().repeat(2, 1)
        for cast, axis, (right, scale) in (
            ("e4m3[1x128:fp32]", 1, kernels.torch_blockwise_scale_act_quant_lhs(x)),
            ("e4m3[1x128:fp32]", 0, kernels.torch_blockwise_scale_act_quant_rhs(x)),
            ("e4m3[128x128:fp32]", 1, kernels.torch_blockwise_scale_weight_quant(x)),
        ):
            codes, scales, outer = backend.quantize(x, cast_parameters(parse_cast(cast)), axis, Draw())
            assert codes.equal(right.view(torch.uint8)), (matrix, cast, axis)
            assert torch.equal(outer, scale), (matrix, cast, axis)
            assert scales.numel() == 0
