"""Casts to 8-bit floats with one scale per tensor or row, as torchao's ``Float8LinearConfig``."""

from __future__ import annotations

from ...specs import OPERANDS, Cast, LayerPrecision
from .._casts import GEMMS, power_of_two
from .._expression import Call, Name, Value

_MODULE = "torchao.float8.config"
_DTYPES = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
#: The config's field of each operand.
_FIELDS = {
    "fprop_input": "cast_config_input",
    "wgrad_input": "cast_config_input_for_grad_weight",
    "fprop_weight": "cast_config_weight",
    "dgrad_weight": "cast_config_weight_for_grad_input",
    "dgrad_grad_output": "cast_config_grad_output",
    "wgrad_grad_output": "cast_config_grad_output_for_grad_weight",
}
#: What ``torch._scaled_mm`` asks of the sizes of its operands.
MULTIPLE = 16


def is_float8(precision: LayerPrecision) -> bool:
    """Whether every cast is to an 8-bit float with one scale per tensor or row."""
    casts = [cast for name in OPERANDS if (cast := precision.operand(name)) is not None]
    return all(cast.element in _DTYPES and cast.granularity.kind in ("tensor", "row") for cast in casts)


def float8_config(precision: LayerPrecision, *, emulate: bool) -> Call | str:
    """The config of a layer, or why torchao has none.

    Sums are fp32, as the recipe says: ``use_fast_accum``, torchao's own choice for the forward product, is off.
    """
    casts = {name: precision.operand(name) for name in OPERANDS}
    why = next(filter(None, (_refusal(name, cast) for name, cast in casts.items())), "") or _pairs(casts)
    if why:
        return why
    flags = {power_of_two(cast) for cast in casts.values() if cast is not None}
    if len(flags) > 1:
        return "some of its scales are powers of two and some are not, and torchao has one flag for a layer"
    arguments: dict[str, Value] = {
        field: _cast_config(casts[name], _element(name, casts)) for name, field in _FIELDS.items()
    }
    for role, again in (("input", "grad_weight"), ("weight", "grad_input"), ("grad_output", "grad_weight")):
        second = f"cast_config_{role}_for_{again}"
        if arguments[second] == arguments[f"cast_config_{role}"]:
            del arguments[second]
    arguments["gemm_config_output"] = Call.of(_name("Float8GemmConfig"), use_fast_accum=False)
    if flags == {True}:
        arguments["round_scales_to_power_of_2"] = True
    if emulate:
        arguments["emulate"] = True
    return Call.of(_name("Float8LinearConfig"), **arguments)


def _refusal(operand: str, cast: Cast | None) -> str:
    if cast is None:
        return ""
    told = f"its {operand} is '{cast}', and "
    if cast.delayed is not None:
        return told + "torchao scales by the tensor's own amax only, not by a history"
    if cast.rounding != "nearest-even" or cast.transform or cast.ratio != 1:
        return told + "torchao's fp8 casts round to nearest, with neither transform nor ratio"
    if cast.overflow != "saturate":
        return told + "torchao's fp8 casts saturate"
    if power_of_two(cast) is None:
        return told + "torchao's scales are exact (fp32), or powers of two by rceil (e8m0)"
    return ""


def _pairs(casts: dict[str, Cast | None]) -> str:
    """Why the operands of a product do not go together."""
    for left, right in GEMMS:
        one, other = casts[left], casts[right]
        if (one is None) != (other is None):
            wide = left if one is None else right
            return f"its {wide} is in the compute dtype and the product's other operand is not"
        if one is not None and other is not None and one.element == other.element == "e5m2":
            return f"its {left} and {right} are both e5m2, which no matrix unit multiplies"
    elements = {(name.partition("_")[2], cast.element) for name, cast in casts.items() if cast is not None}
    if len({role for role, _ in elements}) < len(elements):
        return "a role has two formats, and torchao casts each of input, weight and grad_output to one dtype"
    return ""


def _element(operand: str, casts: dict[str, Cast | None]) -> str:
    """The format of the operand's role; what is not cast must name it, too."""
    role = operand.partition("_")[2]
    elements = [cast.element for name, cast in casts.items() if cast is not None and name.partition("_")[2] == role]
    return elements[0] if elements else "e4m3"


def _cast_config(cast: Cast | None, element: str) -> Call:
    dtype = Name(module="torch", name=_DTYPES[element], alias="torch")
    if cast is None:
        return Call.of(_name("CastConfig"), scaling_type=_name("ScalingType.DISABLED"), target_dtype=dtype)
    kind = "AXISWISE" if cast.granularity.kind == "row" else "TENSORWISE"
    return Call.of(_name("CastConfig"), scaling_granularity=_name(f"ScalingGranularity.{kind}"), target_dtype=dtype)


def _name(name: str) -> Name:
    return Name(module=_MODULE, name=name)
