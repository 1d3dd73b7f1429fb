"""The quantizers of a layer's three tensors, from the casts of its six operands."""

from __future__ import annotations

from dataclasses import replace

from ...specs import Cast, Delayed, LayerPrecision
from .._casts import GEMMS
from .._expression import Call, Name
from .._survey import AskedLayer
from ._quantizers import Quantizer, quantizer_of, te

#: The operands that a tensor's rowwise and columnwise representations go into.
TENSORS = {
    "input": ("fprop_input", "wgrad_input"),
    "weight": ("fprop_weight", "dgrad_weight"),
    "grad_output": ("dgrad_grad_output", "wgrad_grad_output"),
}
_ALGORITHMS = {"max": "max", "recent": "most_recent"}


def quantizers_of(layer: AskedLayer) -> tuple[Call, Call, Call] | str:
    """The quantizers of input, weight and output's gradient, or why there are none."""
    precision = layer.precision
    if precision.accumulator is not None:
        return f"its sums are narrow ({precision.accumulator}), which is an emulation of mixprec's"
    if layer.shares_weight:
        return f"it shares its weight with {layer.shares_weight}, and te.Linear has a parameter of its own"
    found: dict[str, Quantizer] = {}
    for role, (rowwise, columnwise) in TENSORS.items():
        for operand in (rowwise, columnwise):
            cast = precision.operand(operand)
            made = _quantizer(cast, role, columnwise=operand == columnwise)
            if isinstance(made, str):
                return f"its {operand} is '{cast}', and {made}"
            found[operand] = made
    why = _pairs(found) or _sizes(found, layer) or _delays(precision)
    if why:
        return why
    calls = [_tensor(role, precision, found) for role in TENSORS]
    return calls[0], calls[1], calls[2]


def _quantizer(cast: Cast | None, role: str, *, columnwise: bool) -> Quantizer | str:
    """As ``quantizer_of``; a delayed cast is checked as a current one, and its request is made for the whole tensor."""
    if cast is None or cast.delayed is None:
        return quantizer_of(cast, role=role, columnwise=columnwise)
    if cast.granularity.kind != "tensor" or cast.scale != "fp32":
        return "Transformer Engine has delayed scales for whole tensors alone, and exact"
    if cast.element == "e5m2" and role != "grad_output":
        return "Transformer Engine's delayed scaling has e5m2 for gradients alone"
    return quantizer_of(replace(cast, delayed=None), role=role, columnwise=columnwise)


def _pairs(found: dict[str, Quantizer]) -> str:
    for left, right in GEMMS:
        one, other = found[left], found[right]
        if one.family != other.family:
            return f"its {left} is {one.family} and its {right} {other.family}, which no product takes together"
        if one.element == other.element == "e5m2":
            return f"its {left} and {right} are both e5m2, which no matrix unit multiplies"
        if one.is_tile and other.is_tile:
            return f"its {left} and {right} both have blocks of 128x128, and a product takes one of them"
    return ""


def _sizes(found: dict[str, Quantizer], layer: AskedLayer) -> str:
    multiple = max(quantizer.multiple for quantizer in found.values())
    if any(size % multiple for size in layer.features):
        return f"a feature count of {layer.features} is no multiple of {multiple}, which Transformer Engine needs"
    return ""


def _delays(precision: LayerPrecision) -> str:
    """Why delayed scales of a layer cannot be requested."""
    delays: set[Delayed] = set()
    for role, (rowwise, columnwise) in TENSORS.items():
        one, other = precision.operand(rowwise), precision.operand(columnwise)
        if one == other:
            delays |= {one.delayed} if one is not None and one.delayed is not None else set()
        elif any(cast is not None and cast.delayed is not None for cast in (one, other)):
            return f"its {role} has a delayed scale in one product and not the same in the other"
    if len(delays) > 1:
        return "its delayed scales differ, and Transformer Engine has one history length, algorithm and margin for all"
    return ""


def _tensor(role: str, precision: LayerPrecision, found: dict[str, Quantizer]) -> Call:
    rowwise, columnwise = TENSORS[role]
    one, other = precision.operand(rowwise), precision.operand(columnwise)
    if one is not None and one.delayed is not None:
        return _request(one.delayed, precision)
    if one == other or (one is not None and other is not None and _only_adds_transform(one, other)):
        return found[columnwise].call
    return Call.of(
        te("HybridQuantizer"),
        rowwise_quantizer=found[rowwise].call,
        columnwise_quantizer=found[columnwise].call,
        columnwise_source="original",
    )


def _only_adds_transform(rowwise: Cast, columnwise: Cast) -> bool:
    """Whether one quantizer makes both: its Hadamard transform is of the columnwise representation alone."""
    return replace(columnwise, transform=rowwise.transform, signs=rowwise.signs) == rowwise


def _request(delayed: Delayed, precision: LayerPrecision) -> Call:
    gradient = precision.dgrad_grad_output
    is_hybrid = gradient is None or gradient.element == "e5m2"
    return Call.of(
        Name(module="transformer_engine.pytorch.quantization", name="DelayedScalingRequest"),
        fp8_format=Name(module="transformer_engine.common.recipe", name=f"Format.{'HYBRID' if is_hybrid else 'E4M3'}"),
        margin=delayed.margin,
        amax_history_len=delayed.history,
        amax_compute_algo=_ALGORITHMS[delayed.algorithm],
    )
