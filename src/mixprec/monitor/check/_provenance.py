"""What a result takes over from what it was made of."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ._call import Call
from ._values import NARROW, Facts, measured, uses_last_digit

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
#: Operations after which probabilities are still such, or their complements.
_STILL_PROBABILITIES = frozenset(["clamp", "clamp_min", "clamp_max", "add", "sub", "rsub", "mean", "sum"])
#: Operations that put a constant where a mask says so, or everywhere.
_FILLING = frozenset(["masked_fill", "where", "full", "full_like", "fill", "scalar_tensor", "new_full", "index_put"])
_MASKED_ON = frozenset(["add", "sub", "mul", "where", "masked_fill", "minimum", "maximum", "triu", "tril"])
_PROBABILITIES = frozenset(["sigmoid", "_softmax", "special_expit"])
#: Operations whose result is as far off, relatively, as their operands are.
_FACTORS = frozenset(["mul", "div", "neg", "mm", "bmm"])
#: From this magnitude on a constant is taken for a mask's.
MASK_FROM = 1e3


def facts_of_result(call: Call, out: Tensor) -> Facts:
    """Range of a result, and what it takes over."""
    name, first = call.name.rstrip("_") if not call.name.startswith("__") else call.name, _first(call)
    if first is not None and (name in WHOLE_VIEWS or (name in PARTS and first.is_memory)):
        return replace(first, dtype=out.dtype)
    found = replace(
        measured(out), maker=name, place=call.place, rounded=_rounded(call, name, out), kept=_kept(call, name, out)
    )
    if name == "_softmax" or name in _PROBABILITIES:
        found = replace(found, probability=call.place)
    if first is None:
        return replace(found, is_mask=is_filled(call, name, out))
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
    return replace(found, is_mask=masked or is_filled(call, name, out))


def is_filled(call: Call, name: str, out: Tensor) -> bool:
    """Whether a large constant is in a result as a mask: filled in, or the product of a mask of zeros and ones."""
    constants = [abs(n) for n in call.numbers if abs(n) >= MASK_FROM]
    if not constants or name not in (*_FILLING, "mul"):
        return False
    if name != "mul":
        return True
    with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        values = out.detach().abs()
        is_zero = values == 0
        is_constant = values == torch.tensor(constants[0], dtype=out.dtype, device=out.device)
        return bool(is_zero.any()) and bool(is_constant.any()) and bool((is_zero | is_constant).all())


def _first(call: Call) -> Facts | None:
    return call.inputs[0][1] if call.inputs else None


def _rounded(call: Call, name: str, out: Tensor) -> torch.dtype | None:
    """The 16-bit dtype that a result, or a factor of it, was rounded to."""
    before = next((f.rounded for _, f in call.inputs if f.rounded is not None), None)
    if out.dtype in NARROW and name not in PARTS:
        loses = _has_lost(call.args[0], out) if name == "_to_copy" else uses_last_digit(out)
        is_new = call.needs_grad or loses
        return out.dtype if is_new else before if name == "_to_copy" else None
    is_outer = name not in ("mm", "bmm") or call.args[0].shape[-1] == 1
    return before if name in PARTS or name == "_to_copy" or (name in _FACTORS and is_outer) else None


def _has_lost(source: Tensor, out: Tensor) -> bool:
    with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        return not source.is_complex() and bool((source.detach().double() != out.detach().double()).any())


def _kept(call: Call, name: str, out: Tensor) -> torch.dtype | None:
    """The 16-bit dtype that a result would have if the recipe had not brought its operands to fp32."""
    if call.setting.compute is None or out.dtype in NARROW or not out.is_floating_point():
        return None
    if name == "_to_copy" and not call.place.by_library:
        return None  # the author's own cast
    # Parameters, buffers and batches would be of 16 bits too.
    wide = [t for t, f in call.inputs if f.dtype not in NARROW and f.kept is None and f.maker and t.dim()]
    found = [f.kept or f.dtype for _, f in call.inputs if f.dtype in NARROW or f.kept is not None]
    return found[0] if found and not wide else None
