"""Layers that are left as they are, and why: quantized ones of other libraries, adapters, what has no real weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._class_swap import base_class
from ._layer_types import LAYER_TYPES

_TAKEN = (torch.float32, torch.bfloat16, torch.float16)
_LIBRARIES = ("bitsandbytes", "torchao", "transformer_engine")


def left_alone(model: nn.Module, *, has_casts: bool) -> dict[str, str]:
    """The reason for each module whose products no rule is about, by path.

    Args:
        model: the root.
        has_casts: whether the recipe has any: adapters are kept out of these, not out of the compute dtype.
    """
    found: dict[str, str] = {}
    for name, module in model.named_modules():
        reason = _reason(module)
        if reason:
            found[name] = reason
    return found | _adapters(model) if has_casts else found


def _reason(module: nn.Module) -> str:
    library = base_class(module).__module__.partition(".")[0]
    if library in _LIBRARIES and not any(True for _ in module.children()):
        return f"a layer of {library}"
    weight = module.__dict__.get("_parameters", {}).get("weight")
    if not isinstance(weight, Tensor):
        return ""
    kind = type(weight)
    if kind not in (Tensor, nn.Parameter) and kind.__module__.partition(".")[0] in _LIBRARIES:
        return f"a weight of class {kind.__name__} of {kind.__module__.partition('.')[0]}"
    if base_class(module) in LAYER_TYPES and weight.dtype not in _TAKEN:
        return f"a weight of dtype {str(weight.dtype).removeprefix('torch.')}"
    return ""


def _adapters(model: nn.Module) -> dict[str, str]:
    """Low-rank adapters of PEFT: small, trained, and what a frozen layer in few bits relies on."""
    found: dict[str, str] = {}
    for name, module in model.named_modules():
        if base_class(module).__module__.partition(".")[0] != "peft" or not hasattr(module, "base_layer"):
            continue
        for inner, layer in module.named_modules():
            is_base = inner == "base_layer" or inner.startswith("base_layer.")
            if inner and not is_base and base_class(layer) in LAYER_TYPES:
                found[f"{name}.{inner}".lstrip(".")] = "an adapter of peft"
    return found


def notes_on_left_alone(alone: dict[str, str], recipe: str) -> tuple[str, ...]:
    """One sentence for each reason."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in alone.items():
        by_reason.setdefault(reason, []).append(name)
    return tuple(
        f"recipe {recipe}: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''} left as "
        f"{'they are' if len(names) > 1 else 'it is'}: {reason}"
        for reason, names in by_reason.items()
    )
