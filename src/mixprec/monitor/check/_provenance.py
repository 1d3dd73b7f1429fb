"""What a result takes over from what it was made of."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from ._call import Call
from ._values import NARROW, Facts, measured

#: Operations that give the same values under another shape, of all of them.
WHOLE_VIEWS = frozenset(
    [
        "view",
        "t",
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "expand",
        "alias",
        "_unsafe_view",
        "reshape",
        "_reshape_alias",
        "clone",
        "contiguous",
        "lift_fresh",
    ]
)
#: Operations that give some of the values.
PARTS = frozenset(
    [
        "select",
        "slice",
        "index",
        "gather",
        "index_select",
        "unbind",
        "split",
        "split_with_sizes",
        "chunk",
        "cat",
        "stack",
        "take_along_dim",
        "masked_select",
        "diagonal",
        "as_strided",
    ]
)
#: Operations whose results have no values yet; kernels that are no operators may write them.
EMPTY = frozenset(["empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"])
#: Operations after which probabilities are still such, or their complements.
_STILL_PROBABILITIES = frozenset(["clamp", "clamp_min", "clamp_max", "add", "sub", "rsub", "mean", "sum"])
#: Operations whose large values a constant may have put there.
_FILLING = frozenset(
    ["masked_fill", "where", "full", "full_like", "fill", "scalar_tensor", "new_full", "mul", "rsub", "index_put"]
)
_MASKED_ON = frozenset(["add", "sub", "mul", "where", "masked_fill", "minimum", "maximum", "triu", "tril"])
_PROBABILITIES = frozenset(["sigmoid", "_softmax", "special_expit"])
#: From this magnitude on a constant is taken for a mask's.
MASK_FROM = 1e3


def facts_of_result(call: Call, out: Tensor) -> Facts:
    """Range of a result, and what it takes over."""
    name, first = call.name.rstrip("_") if not call.name.startswith("__") else call.name, _first(call)
    if first is not None and (name in WHOLE_VIEWS or (name in PARTS and first.maker in EMPTY)):
        return replace(first, dtype=out.dtype)
    found = replace(measured(out), maker=name, place=call.place)
    if name == "_softmax" or name in _PROBABILITIES:
        found = replace(found, probability=call.place)
    if first is None:
        return replace(found, is_mask=_is_filled(call, name))
    if name == "_to_copy":
        narrowed = first.dtype if first.dtype in NARROW and out.dtype not in NARROW else first.narrowed
        return replace(
            found,
            maker=first.maker,
            place=first.place,
            narrowed=None if out.dtype in NARROW else narrowed,
            widened=narrowed if call.place.by_library and out.dtype not in NARROW else None,
            probability=first.probability,
            is_mask=first.is_mask,
        )
    if name in PARTS or name in _STILL_PROBABILITIES:
        found = replace(found, narrowed=first.narrowed if name in PARTS else None, probability=first.probability)
    masked = any(f.is_mask for _, f in call.inputs) and (name in PARTS or name in _MASKED_ON)
    return replace(found, is_mask=masked or _is_filled(call, name))


def _first(call: Call) -> Facts | None:
    return call.inputs[0][1] if call.inputs else None


def _is_filled(call: Call, name: str) -> bool:
    return name in _FILLING and any(abs(n) >= MASK_FROM for n in call.numbers)
