"""Loading an optimizer's state: what was kept otherwise is refused, or converted where that was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from torch.nn import Parameter

from ..specs import Moments, Weights
from ._layout import Layout, convert_state
from ._options import is_torch_only, refuse_option
from ._saved_entry import SavedEntry

if TYPE_CHECKING:
    from ._kernel_optimizer import KernelOptimizer

Group = dict[str, Any]
Entries = list[tuple[Parameter, SavedEntry, Layout]]
_TOLD = 3


def plain_groups(groups: Iterable[Group], kept: Iterable[tuple[Weights, Moments]]) -> list[Group]:
    """Saved groups with how they are kept as plain values, which ``torch.load(weights_only=True)`` reads."""
    return [
        {**group, "weights": weights, "moments": asdict(moments)}
        for group, (weights, moments) in zip(groups, kept, strict=True)
    ]


def load_state(optimizer: KernelOptimizer, saved: Mapping[str, Any], convert: bool) -> None:
    """See ``KernelOptimizer.load_state_dict``; nothing is changed where it refuses."""
    adopted, entries = read_state(optimizer, saved, convert)
    optimizer.load_groups(adopted)
    for param, entry, new in entries:
        state = optimizer.state[param]
        state |= entry.tensors
        convert_state(param, state, entry.names, entry.layout(new), new)


def read_state(optimizer: KernelOptimizer, saved: Mapping[str, Any], convert: bool) -> tuple[list[Group], Entries]:
    """The groups that a saved state gives an optimizer, and what it holds of each parameter; checked.

    Raises:
        ValueError: what ``KernelOptimizer.load_state_dict`` refuses.
    """
    who, groups = type(optimizer).__name__, cast("list[Group]", saved["param_groups"])
    _check_groups(who, groups, optimizer.param_groups)
    _check_keys(who, saved["state"], groups)
    adopted = [_adopted(who, theirs, ours) for theirs, ours in zip(groups, optimizer.param_groups, strict=True)]
    entries: Entries = []
    for theirs, group, ours in zip(groups, adopted, optimizer.param_groups, strict=True):
        names = optimizer.moment_names(group)
        for key, param in zip(theirs["params"], ours["params"], strict=True):
            if key in saved["state"]:
                entry = SavedEntry.read(key, param, saved["state"][key], theirs, names)
                entries.append((param, entry, optimizer.layout(param, ours)))
    if not convert:
        _refuse_differing(who, entries)
    return adopted, entries


def _check_groups(who: str, theirs: list[Group], ours: list[Group]) -> None:
    saved, here = [len(group["params"]) for group in theirs], [len(group["params"]) for group in ours]
    if saved != here:
        raise ValueError(
            f"mixprec.optim.{who}: the state is of groups with {saved} parameters, this optimizer has {here}: build it "
            "over the same parameters, in the same groups and order"
        )


def _check_keys(who: str, state: Mapping[Any, Any], groups: list[Group]) -> None:
    known = {key for group in groups for key in group["params"]}
    unknown = [key for key in state if key not in known]
    if not unknown:
        return
    reason = "it is of another optimizer"
    if any(isinstance(key, str) and key.isdecimal() for key in unknown):
        reason = (
            "numbers became text (torch's dcp_to_torch_save does that): give it with state={int(key): value for key, "
            "value in state['state'].items()}"
        )
    raise ValueError(
        f"mixprec.optim.{who}: the state is kept under {', '.join(map(repr, unknown[:_TOLD]))}, and the parameters of "
        f"its groups are {', '.join(map(repr, sorted(known, key=repr)[:_TOLD]))}, ...: {reason}"
    )


def _adopted(who: str, theirs: Group, ours: Group) -> Group:
    """A saved group's options, kept as this optimizer keeps its own."""
    refuse_option(who, "amsgrad", theirs.get("amsgrad", False))
    if not theirs.get("decoupled_weight_decay", True) and theirs.get("weight_decay"):
        raise ValueError(
            f"mixprec.optim.{who}: the state is of torch.optim.Adam with weight_decay={theirs['weight_decay']}, which "
            "is added to the gradient: continue with torch.optim.Adam, or set weight_decay to 0 in the state"
        )
    taken = {k: v for k, v in theirs.items() if not is_torch_only(k) and k != "decoupled_weight_decay"}
    missing = {name: value for name, value in ours.items() if name not in taken}
    return {**missing, **taken, "weights": ours["weights"], "moments": ours["moments"]}


def _refuse_differing(who: str, entries: Entries) -> None:
    told = {difference: entry.key for _, entry, new in reversed(entries) for difference in entry.differences(new)}
    if told:
        differing = "; ".join(f"{text} (first in parameter {key})" for text, key in list(told.items())[:_TOLD])
        raise ValueError(
            f"mixprec.optim.{who}: the state was kept otherwise: {differing}: load it with convert=True, after the "
            "model's weights, or build the optimizer as it was saved"
        )
