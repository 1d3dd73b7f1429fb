"""Casts as quantizers of Transformer Engine: one direction of one tensor each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from ...specs import Cast
from .._casts import power_of_two
from .._expression import Call, Name, Value

_FP8 = {"e4m3": "kFloat8E4M3", "e5m2": "kFloat8E5M2"}
#: What stochastic rounding keeps of the range under an E4M3 scale here; Transformer Engine uses all of it.
_SPARED = Fraction(16, 17)


@dataclass(frozen=True, kw_only=True)
class Quantizer:
    """A quantizer for a direction of a tensor.

    Attributes:
        family: quantizers of one family multiply with one another.
        call: that makes it.
        element: of the cast; empty where nothing is cast.
        is_tile: whether its blocks are as high as wide.
        multiple: that the features must be of.
    """

    family: str
    call: Call
    element: str = ""
    is_tile: bool = False
    multiple: int = 1


def te(name: str) -> Name:
    """A name of Transformer Engine's PyTorch interface."""
    return Name(module="transformer_engine.pytorch", name=name, alias="te")


IDENTITY = Quantizer(family="wide", call=Call.of(te("IdentityQuantizer")))


def quantizer_of(cast: Cast | None, *, role: str, columnwise: bool) -> Quantizer | str:
    """Give the quantizer of a cast that is not delayed, or why there is none.

    Args:
        cast: of an operand; ``None``: it stays in the compute dtype.
        role: ``"input"``, ``"weight"`` or ``"grad_output"``.
        columnwise: whether it is of the columnwise representation, which wgrad takes of input and gradient and dgrad of
            the weight.
    """
    if cast is None:
        return IDENTITY
    key = (cast.granularity.kind, cast.element if cast.granularity.kind == "block" else "", _blocks(cast))
    make = _MAKERS.get(key)
    if make is None:
        return "Transformer Engine has no quantizer of these blocks and formats"
    if cast.overflow != "saturate":
        return "Transformer Engine's quantizers saturate"
    return make(cast, role, columnwise)


def _blocks(cast: Cast) -> str:
    """The blocks and the format of their scales, where a cast has any."""
    if cast.granularity.kind != "block":
        return ""
    return f"{cast.granularity}:{cast.scale}" + (f"*{cast.tensor_scale}" if cast.tensor_scale else "")


def _plain(cast: Cast) -> str:
    """Why a cast is none of those that round to nearest and nothing else; empty where it is one."""
    if cast.rounding != "nearest-even" or cast.transform or cast.ratio != 1:
        return "Transformer Engine rounds 8-bit formats to nearest, with neither transform nor ratio"
    return ""


def _per_tensor(cast: Cast, role: str, columnwise: bool) -> Quantizer | str:
    power = power_of_two(cast)
    if cast.element not in _FP8 or power is None:
        return "Transformer Engine's scales of tensors are for e4m3 and e5m2, exact (fp32) or powers of two by rceil"
    call = Call.of(
        te("Float8CurrentScalingQuantizer"),
        fp8_dtype=_dtype(_FP8[cast.element]),
        device=Call.of(Name(module="torch", name="device", alias="torch"), type="cuda"),
        force_pow_2_scales=power,
        amax_epsilon=0.0,
    )
    return _plain(cast) or Quantizer(family="fp8", call=call, element=cast.element, multiple=16)


def _tiles(cast: Cast, role: str, columnwise: bool) -> Quantizer | str:
    power = power_of_two(cast)
    if power is None:
        return "Transformer Engine's scales of blocks of 128 are exact (fp32), or powers of two by rceil"
    is_tile = cast.granularity.outer > 1
    call = Call.of(
        te("Float8BlockQuantizer"),
        fp8_dtype=_dtype(_FP8[cast.element]),
        rowwise=True,
        columnwise=True,
        force_pow_2_scales=power,
        amax_epsilon=0.0,
        block_scaling_dim=2 if is_tile else 1,
    )
    why = _plain(cast)
    return why or Quantizer(family="fp8 in blocks", call=call, element=cast.element, is_tile=is_tile, multiple=128)


def _mxfp8(cast: Cast, role: str, columnwise: bool) -> Quantizer | str:
    if cast.rule != "rceil":
        return "Transformer Engine's MXFP8 scales are rounded up: say rceil, as in 'mxfp8 rceil'"
    call = Call.of(te("MXFP8Quantizer"), fp8_dtype=_dtype(_FP8[cast.element]))
    return _plain(cast) or Quantizer(family="mxfp8", call=call, element=cast.element, multiple=32)


def _nvfp4(cast: Cast, role: str, columnwise: bool) -> Quantizer | str:
    why = _nvfp4_refusal(cast, role, columnwise)
    if why:
        return why
    arguments: dict[str, Value] = {
        "fp4_dtype": _dtype("kFloat4E2M1"),
        "with_rht": bool(cast.transform),
        "with_post_rht_amax": bool(cast.transform),
        "with_2d_quantization": cast.granularity.outer > 1,
        "stochastic_rounding": cast.is_stochastic,
        "with_random_sign_mask": cast.signs != "none" or not cast.transform,
    }
    call = Call.of(te("NVFP4Quantizer"), **arguments)
    return Quantizer(family="nvfp4", call=call, element=cast.element, multiple=16)


def _nvfp4_refusal(cast: Cast, role: str, columnwise: bool) -> str:
    if cast.rule != "exact" or cast.rounding == "toward-zero":
        return "Transformer Engine's NVFP4 scales a block's amax to 6, and rounds to nearest or stochastically"
    if cast.ratio != (_SPARED if cast.is_stochastic else 1):
        return "Transformer Engine's NVFP4 uses the whole range"
    if cast.is_stochastic and role != "grad_output":
        return "Transformer Engine rounds stochastically gradients alone"
    if cast.transform and (not columnwise or cast.transform != 16 or cast.signs == "fresh" or role == "weight"):
        return "Transformer Engine transforms the operands of wgrad alone, by 16, with signs that stay"
    if cast.granularity.outer > 1 and role != "weight":
        return "Transformer Engine has blocks of 16x16 for weights alone"
    return ""


def _dtype(name: str) -> Name:
    return te(f"DType.{name}")


_Maker = Callable[[Cast, str, bool], "Quantizer | str"]
#: By kind of granularity, element and blocks.
_MAKERS: Mapping[tuple[str, str, str], _Maker] = MappingProxyType(
    {
        ("tensor", "", ""): _per_tensor,
        **{("block", element, "1x32:e8m0"): _mxfp8 for element in _FP8},
        **{
            ("block", "e4m3", f"{block}:{scale}"): _tiles
            for block in ("1x128", "128x128")
            for scale in ("e8m0", "fp32")
        },
        **{("block", "e2m1", f"{block}:e4m3*fp32"): _nvfp4 for block in ("1x16", "16x16")},
    }
)
