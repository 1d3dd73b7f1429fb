"""A model's weights from elsewhere: a plain ``state_dict``, or a file of one, however it is nested and named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor

from ..tensors import load_tensors
from ._parameter_names import plain_name, renamed

# Under what training scripts put the model's state beside other things.
_NESTS = ("", "model.", "state_dict.", "model_state_dict.", "model_state.", "net.", "network.")


def plain_weights(source: str | Path | Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Tensor]:
    """Find a model's tensors in a file or a mapping.

    They may lie beside an optimizer's, under ``state_dict``, ``model`` or the like, and have the prefixes ``module.``
    of DDP and ``_orig_mod.`` of ``torch.compile``. A tensor of the model that has several names needs one of them.

    Args:
        source: what holds them; a file is read without running code.
        own: the model's own ``state_dict()``.

    Returns:
        By the model's own names; with whatever else lies beside them under the same roof.

    Raises:
        ValueError: some are missing; the message lists them.
    """
    tensors = load_tensors(source) if isinstance(source, str | Path) else dict(_named(source, ""))
    wanted = {plain_name(name): name for name in own}
    found = {nest: _under(nest, tensors) for nest in _NESTS}
    best = max(_NESTS, key=lambda nest: sum(plain_name(name) in wanted for name in found[nest]))
    values = renamed(found[best], own)
    for name, others in _tied(own).items():
        one = next((values[other] for other in others if other in values), None)
        if name not in values and one is not None:
            values[name] = one
    missing = sorted(plain for plain, name in wanted.items() if name not in values)
    if missing:
        where = source if isinstance(source, str | Path) else "the mapping"
        raise ValueError(
            f"{where} holds no weights of this model: missing {', '.join(missing[:5])} "
            f"({len(missing)} of {len(wanted)}); it has {', '.join(list(tensors)[:3]) or 'no tensors'}"
        )
    return values


def _tied(own: Mapping[str, Any]) -> dict[str, list[str]]:
    """The other names of each tensor that has several."""
    names: dict[object, list[str]] = {}
    for name, value in own.items():
        if isinstance(value, Tensor) and value.numel():
            names.setdefault((value.data_ptr(), value.shape, value.dtype), []).append(name)
    return {name: [n for n in group if n != name] for group in names.values() for name in group if len(group) > 1}


def _under(nest: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(nest): tensor for name, tensor in tensors.items() if name.startswith(nest)}


def _named(value: object, name: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of nested mappings."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from _named(item, f"{name}.{key}" if name else str(key))
