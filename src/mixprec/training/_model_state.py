"""All that a model holds between steps: parameters, buffers, and the buffers that its ``state_dict`` leaves out."""

# torch gives no other way to the buffers that a state_dict leaves out.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ._parameter_names import plain_name, renamed


def model_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Buffers that are not persistent, by name: a rotary table that grows, a running count.

    Example:
        >>> model = nn.Module()
        >>> model.register_buffer("count", torch.zeros(()), persistent=False)
        >>> list(model_buffers(model)), list(model.state_dict())
        (['count'], [])
    """
    found = ((name, owner._buffers[leaf]) for name, owner, leaf in _left_out(model))
    return {name: buffer for name, buffer in found if buffer is not None}


@torch.no_grad()
def load_model_buffers(model: nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Continue from saved ``model_buffers``; one of another shape here is replaced, one that is not saved stays."""
    here = {name: (owner, leaf) for name, owner, leaf in _left_out(model)}
    for name, value in renamed(saved, here).items():
        if name not in here:
            continue
        owner, leaf = here[name]
        now = owner._buffers[leaf]
        if now is not None and now.shape == value.shape and now.dtype == value.dtype:
            now.copy_(value)
        else:
            owner._buffers[leaf] = value.to(value.device if now is None else now.device, copy=True)


def model_metadata(state_dict: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The versions of modules that a ``state_dict`` carries as an attribute."""
    return {name: dict(entry) for name, entry in getattr(state_dict, "_metadata", {}).items()}


def with_metadata(values: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Values as a ``state_dict`` that carries its versions of modules."""
    state = OrderedDict(values)
    state._metadata = OrderedDict(metadata)  # pyright: ignore[reportAttributeAccessIssue]  # torch's own way
    return state


def check_model_values(model: nn.Module, values: Mapping[str, Any], *, converts: bool) -> None:
    """Refuse values that are not this model's, before anything is changed.

    Args:
        model: that is to hold them.
        values: by this model's names.
        converts: whether floating values may have another dtype.

    Raises:
        ValueError: names, shapes or dtypes differ; the message lists them.
    """
    own: dict[str, Any] = model.state_dict()
    missing, unknown = sorted(own.keys() - values.keys()), sorted(values.keys() - own.keys())
    differing: list[str] = []
    for name in own.keys() & values.keys():
        ours, theirs = own[name], values[name]
        if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
            continue
        if ours.shape != theirs.shape:
            differing.append(f"{plain_name(name)} has shape {list(theirs.shape)}, here {list(ours.shape)}")
        elif ours.dtype != theirs.dtype and not (converts and ours.is_floating_point() and theirs.is_floating_point()):
            differing.append(f"{plain_name(name)} is {theirs.dtype}, here {ours.dtype}")
    if missing or unknown or differing:
        parts = [f"missing {_some(missing)}"] if missing else []
        parts += [f"unknown {_some(unknown)}"] if unknown else []
        parts += [_some(sorted(differing), "; ")] if differing else []
        advice = "" if missing or unknown or converts else "; with convert=True other dtypes are converted"
        raise ValueError(f"the weights are not this model's: {'; '.join(parts)}{advice}")


def _left_out(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    for prefix, module in model.named_modules():
        for leaf in module._buffers:
            if leaf in module._non_persistent_buffers_set:
                yield f"{prefix}.{leaf}" if prefix else leaf, module, leaf


def _some(names: list[str], between: str = ", ") -> str:
    rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return between.join(names[:5]) + rest
