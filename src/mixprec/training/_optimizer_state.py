"""The state of an optimizer as it was saved, to the dtype."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..optim import SGD, AdamW
from ._full_weights import EXTRA_KINDS

_OURS = "mixprec.optim."


def check_optimizer_state(name: str, optimizer: Optimizer, state: Mapping[str, Any], *, convert: bool) -> None:
    """Refuse what ``load_optimizer_state`` would refuse, and change nothing.

    Raises:
        ValueError: groups of other sizes, or a state that is kept otherwise.
    """
    saved, here = ([len(group["params"]) for group in groups] for groups in (state["param_groups"], _groups(optimizer)))
    if saved != here:
        raise ValueError(
            f"resume: optimizer '{name}' of the checkpoint has groups of {saved} parameters, here {here}: build it "
            "over the same parameters, in the same groups and order"
        )
    if isinstance(optimizer, AdamW | SGD):
        optimizer.check_state_dict(_without_extras(state) if convert else state, convert=convert)
    elif any(_is_ours(group) for group in state["param_groups"]):
        _for_torch(optimizer, state)


def load_optimizer_state(optimizer: Optimizer, state: Mapping[str, Any], *, convert: bool) -> None:
    """Continue from a saved ``state_dict``.

    Torch's own loading casts every floating tensor of the state to its parameter's dtype, moments of another width
    too; those are given back as they were saved.

    Args:
        optimizer: of the same class and groups.
        state: that was saved.
        convert: whether moments that are kept otherwise here are converted.

    Raises:
        ValueError: groups of other sizes, or a state of another optimizer.
    """
    load: Callable[..., None] = optimizer.load_state_dict
    if isinstance(optimizer, AdamW | SGD):
        load(_without_extras(state) if convert else state, convert=convert)
        return
    load(_for_torch(optimizer, state) if any(_is_ours(group) for group in state["param_groups"]) else dict(state))
    if convert:
        return
    params = [param for group in optimizer.param_groups for param in group["params"]]
    for index, saved in state["state"].items():
        own = optimizer.state[params[index]]
        for name, value in saved.items():
            if isinstance(value, Tensor) and isinstance(own.get(name), Tensor) and own[name].dtype != value.dtype:
                own[name] = value.to(own[name].device, copy=True)


def update_rule(optimizer: Optimizer) -> str:
    """What an optimizer's moments mean: its class, by name.

    Example:
        >>> update_rule(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
        'SGD'
    """
    prefix = _OURS if isinstance(optimizer, AdamW | SGD) else ""
    return prefix + type(optimizer).__name__


def refuse_other_rule(name: str, optimizer: Optimizer, saved: str, *, convert: bool) -> None:
    """Refuse the state of an optimizer of another class; with ``convert``, of another update rule.

    Raises:
        ValueError: it is.
    """
    here = update_rule(optimizer)
    if saved == here or (convert and saved.removeprefix(_OURS) == here.removeprefix(_OURS)):
        return
    is_same_rule = saved.removeprefix(_OURS) == here.removeprefix(_OURS)
    advice = (
        "convert=True takes its moments over"
        if is_same_rule
        else "prepare with the same optimizer, or take the weights alone: resume('.../model.safetensors', convert=True)"
    )
    raise ValueError(f"resume: optimizer '{name}' of the checkpoint is {saved}, here it is {here}: {advice}")


def _groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    return optimizer.param_groups


def _is_ours(group: Mapping[str, Any]) -> bool:
    return "moments" in group and "weights" in group


def _for_torch(optimizer: Optimizer, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state of an optimizer of this package as one of torch's optimizer of the same rule.

    Raises:
        ValueError: moments that are not fp32.
    """
    plain = _without_extras(state)
    for entry in plain["state"].values():
        narrow = [k for k, v in entry.items() if isinstance(v, Tensor) and v.dtype in (torch.uint8, torch.bfloat16)]
        if narrow:
            raise ValueError(
                f"resume: {narrow[0]} is kept as {entry[narrow[0]].dtype} by mixprec.optim, which torch's optimizer "
                "cannot read: resume with mixprec.optim and moments='fp32', save, and then change the optimizer"
            )
    pairs = zip(plain["param_groups"], optimizer.param_groups, strict=True)
    plain["param_groups"] = [
        {**own, **{name: value for name, value in saved.items() if name in own}, "params": saved["params"]}
        for saved, own in pairs
    ]
    return plain


def _without_extras(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state without what lies beside weights, which the session's state has too, and converts by itself."""
    return {
        **state,
        "state": {
            key: {name: value for name, value in entry.items() if name not in EXTRA_KINDS}
            for key, entry in state["state"].items()
        },
    }
