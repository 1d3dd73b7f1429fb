"""All that continues a run, gathered from its owners and given back to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer

from ..monitor import load_random_states, random_states
from ..optim import KeptWeights
from ._full_weights import EXTRA_KINDS, full_weights
from ._model_state import (
    check_model_values,
    load_model_buffers,
    model_buffers,
    model_metadata,
    with_metadata,
)
from ._optimizer_state import check_optimizer_state, load_optimizer_state, refuse_other_rule, update_rule
from ._parameter_names import plain_name, renamed
from ._state import SessionState


@runtime_checkable
class Restorable(Protocol):
    """Anything with torch's two methods: a data loader, an average, a curriculum."""

    def state_dict(self) -> Any:
        """Give its state."""
        ...

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Continue from a state."""
        ...


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Whose states a checkpoint holds.

    Attributes:
        model: in the session's order of parameters.
        optimizers: by name.
        kept: how their weights are kept, by the same names.
        session: with ``state_dict()`` and ``load_state_dict(state, convert=)``.
        extra: the user's own objects, by name.
    """

    model: nn.Module
    optimizers: Mapping[str, Optimizer]
    kept: Mapping[str, KeptWeights]
    session: Any
    extra: Mapping[str, Restorable]

    def __post_init__(self) -> None:
        for name, owner in self.extra.items():
            if not isinstance(cast("object", owner), Restorable):
                raise TypeError(
                    f"extra '{name}' is a {type(owner).__name__}, expected an object with state_dict() and "
                    "load_state_dict(), such as a data loader that knows its position"
                )


def gather_parts(owners: Owners) -> dict[str, object]:
    """All states, by the part of a checkpoint that they go into; tensors are references."""
    values = owners.model.state_dict()
    beside = {
        "state": owners.session.state_dict(),
        "buffers": model_buffers(owners.model),
        "metadata": model_metadata(values),
        "rules": {name: update_rule(optimizer) for name, optimizer in owners.optimizers.items()},
        "extra": {name: owner.state_dict() for name, owner in owners.extra.items()},
        "random": random_states(),
    }
    optimizers = {name: optimizer.state_dict() for name, optimizer in owners.optimizers.items()}
    return {"model": dict(values), "optimizers": optimizers, "session": beside}


def load_parts(parts: Mapping[str, Any], owners: Owners, *, convert: bool) -> tuple[list[str], list[str]]:
    """Give all states back; what does not fit is refused before anything is changed.

    Args:
        parts: that ``gather_parts`` gave, on the CPU.
        owners: who continues.
        convert: whether what is kept otherwise here is converted.

    Returns:
        What was converted, and what could not be restored, for people.

    Raises:
        ValueError: a state that is not this run's: the message lists what differs.
    """
    beside = parts["session"]
    saved = SessionState.from_dict(beside["state"])
    saved = replace(saved, kept=renamed(saved.kept, (name for name, _ in owners.model.named_parameters())))
    values = renamed(parts["model"], owners.model.state_dict())
    own = SessionState.from_dict(owners.session.state_dict())
    _check_parts(parts, owners, values, saved, own, convert=convert)
    converted, unrestored = list(saved.differences(own)), list(saved.one_sided(own))
    for name, owner in owners.extra.items():  # first, for what the user's own objects refuse cannot be asked before
        owner.load_state_dict(beside["extra"][name])
    for name, optimizer in owners.optimizers.items():
        load_optimizer_state(optimizer, parts["optimizers"][name], convert=convert)
    owners.model.load_state_dict(with_metadata(values, beside["metadata"]))
    load_model_buffers(owners.model, beside["buffers"])
    if convert:
        _begin_extras(owners)
    owners.session.load_state_dict(beside["state"], convert=convert)
    if convert:
        load_full_values(owners, values, saved.kept)
    return converted, [*unrestored, *load_random_states(beside["random"])]


def _check_parts(
    parts: Mapping[str, Any],
    owners: Owners,
    values: Mapping[str, Any],
    saved: SessionState,
    own: SessionState,
    *,
    convert: bool,
) -> None:
    """Refuse all that loading would refuse, the model's shapes first: nothing else is told of another model."""
    _check_names("optimizers", parts["optimizers"], owners.optimizers)
    _check_names("extra", parts["session"]["extra"], owners.extra)
    check_model_values(owners.model, values, converts=True)
    for name, optimizer in owners.optimizers.items():
        refuse_other_rule(name, optimizer, parts["session"]["rules"][name], convert=convert)
    saved.refuse_misfit(own, convert=convert)
    check_model_values(owners.model, values, converts=convert)
    _check_extras(values, saved.kept)
    for name, optimizer in owners.optimizers.items():
        check_optimizer_state(name, optimizer, parts["optimizers"][name], convert=convert)


def _check_extras(values: Mapping[str, Any], kept: Mapping[str, Mapping[str, Tensor]]) -> None:
    plain = {plain_name(name): value for name, value in values.items()}
    for name, extras in kept.items():
        shape = plain[plain_name(name)].shape if plain_name(name) in plain else None
        if any(kind not in EXTRA_KINDS or extra.shape != shape for kind, extra in extras.items()):
            told = ", ".join(f"{kind} {list(extra.shape)}" for kind, extra in extras.items())
            raise ValueError(
                f"resume: beside {name} (shape {None if shape is None else list(shape)}) the checkpoint keeps {told}: "
                f"expected one of {', '.join(sorted(EXTRA_KINDS))}, of the weight's shape"
            )


def _begin_extras(owners: Owners) -> None:
    """Let what lies beside each weight be there, where an optimizer that keeps it in its state has loaded another's."""
    for keeping in owners.kept.values():
        for param in keeping.parameters():
            if param.dtype.itemsize == 2:
                keeping.full_weight(param)


def load_full_values(owners: Owners, values: Mapping[str, Tensor], kept: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Let every parameter be kept from its exact saved value, where it is kept otherwise than it was saved.

    Args:
        owners: whose model has loaded ``values`` in its own dtypes, and whose session what lies beside them.
        values: as they were saved, by this model's names.
        kept: beside them, by the names that were saved.
    """
    plain = {plain_name(name): extras for name, extras in kept.items()}
    names = {param: name for name, param in owners.model.named_parameters()}
    for keeping in owners.kept.values():
        now = keeping.extras()
        for param in keeping.parameters():
            name = names.get(param)
            if name is None or name not in values:
                continue
            extras = plain.get(plain_name(name), {})
            if extras.keys() == now.get(param, {}).keys() and values[name].dtype == param.dtype:
                continue  # loaded as it is
            full = full_weights({name: values[name]}, {name: extras})[name]
            keeping.load_full_weight(param, full.to(param.device))


def _check_names(what: str, saved: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    if saved.keys() != here.keys():
        raise ValueError(
            f"resume: the checkpoint has {what} {', '.join(saved) or 'none'}, the session {', '.join(here) or 'none'}: "
            + ("give resume(extra=...) the same names that save() got" if what == "extra" else "prepare with the same")
        )
