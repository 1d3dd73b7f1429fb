"""A session's state, gathered from the parts of the session and given back to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from torch import nn
from torch.nn import Parameter

from ..monitor import UpdateWatch
from ..nn import Conversion
from ..optim import KeptWeights, WeightAverage
from ..specs import Recipe
from ._full_weights import full_weight
from ._parameter_names import renamed
from ._phases import PhaseKeeper
from ._scales import LossScales
from ._state import SessionState
from ._watching import Unwatched

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class StateKeeper:
    """The parts of a session that have something to remember.

    Attributes:
        model: whose parameters give the names.
        recipe: of the session.
        conversion: random bits and histories of casts.
        phases: of the recipe.
        kept: weights, by the optimizer's name.
        scales: of the losses.
        watches: of updates that are too small, by the optimizer's name.
        watching: those who watch.
        schedules: of learning rates, by the optimizer's name.
        averages: of weights, by name.
    """

    model: nn.Module
    recipe: Recipe
    conversion: Conversion
    phases: PhaseKeeper
    kept: Mapping[str, KeptWeights]
    scales: LossScales
    watches: Mapping[str, UpdateWatch]
    watching: Unwatched
    schedules: Mapping[str, Any]
    averages: Mapping[str, WeightAverage]

    def state(self, applied: int, skipped: int, guard: Mapping[str, Any] = _NOTHING) -> SessionState:
        """What continues the session, with what a guard has to remember; tensors are references."""
        extras = {p: extras for kept in self.kept.values() for p, extras in kept.extras().items()}
        return SessionState(
            name=self.recipe.name,
            recipe=self.recipe,
            losses=self.scales.state_dict(),
            random=self.conversion.random_state(),
            applied=applied,
            skipped=skipped,
            kept={name: extras[p] for name, p in self.model.named_parameters() if extras.get(p)},
            optimizers={name: {"seed": kept.seed, "applied": kept.applied} for name, kept in self.kept.items()},
            histories=self.conversion.histories(),
            monitor={
                "updates": {name: watch.state_dict() for name, watch in self.watches.items()},
                "watching": self.watching.state_dict(),
            },
            averages={name: average.state_dict() for name, average in self.averages.items()},
            schedules={name: schedule.state_dict() for name, schedule in self.schedules.items()},
            phases=self.phases.state(),
            guard=guard,
        )

    def read(self, state_dict: Mapping[str, Any], *, convert: bool) -> SessionState:
        """Read a state, by this model's names.

        Raises:
            ValueError: it is no session's, or another one's, and ``convert`` is not asked for.
            TypeError: no mapping.
        """
        state = SessionState.from_dict(state_dict)
        state = replace(state, kept=renamed(state.kept, (name for name, _ in self.model.named_parameters())))
        state.refuse_misfit(self.state(0, 0), convert=convert)
        return state

    def load(self, state: SessionState, *, convert: bool) -> list[tuple[str, str]]:
        """Continue from a state.

        Returns:
            What there is to tell: names and messages of events.

        Raises:
            ValueError: histories of other operands, or something else that does not fit.
        """
        own = self.state(0, 0)
        told = [("converted", text) for text in state.differences(own)]
        told += [("not restored", text) for text in state.one_sided(own)]
        self.phases.load(state.phases, state.applied)
        self.conversion.load_random_state(state.random)
        self._load_histories(state, convert=convert)
        self.scales.load_state_dict(self._fitting_losses(state, convert=convert))
        for name, kept in self.kept.items():
            position = state.optimizers.get(name, {"seed": kept.seed, "applied": state.applied})
            kept.seed, kept.applied = position["seed"], position["applied"]
        for name, param, kept in self._parameters():
            self._load_extras(name, param, kept, state, convert=convert)
        self._load_monitor(state)
        for name in self.averages.keys() - state.averages.keys():
            self._begin_average(name)
        for name in state.averages.keys() & self.averages.keys():
            self.averages[name].load_state_dict(state.averages[name])
        for name in state.schedules.keys() & self.schedules.keys():
            self.schedules[name].load_state_dict(state.schedules[name])
        return told

    def _load_monitor(self, state: SessionState) -> None:
        """Who watches goes on; a state of an earlier version has one window over all updates."""
        updates = state.monitor.get("updates", {})
        if "before" in state.monitor:
            updates = dict.fromkeys(self.watches, state.monitor)
        for name in updates.keys() & self.watches.keys():
            self.watches[name].load_state_dict(updates[name])
        self.watching.load_state_dict(state.monitor.get("watching", {}), state.applied)

    def _begin_average(self, name: str) -> None:
        """Let an average that is not in the state be the weights that are."""
        values = {n: kept.full_weight(p) for n, p, kept in self._parameters()}
        own = self.averages[name].state_dict()
        averages = {n: values.get(n, average) for n, average in own["averages"].items()}
        self.averages[name].load_state_dict({**own, "updates": 0, "averages": averages})

    def _load_extras(
        self, name: str, param: Parameter, kept: KeptWeights, state: SessionState, *, convert: bool
    ) -> None:
        saved, own = state.kept.get(name, {}), kept.extras().get(param, {})
        if not convert or (saved and saved.keys() == own.keys()):
            kept.load_extras(param, saved)
        elif saved:
            kept.load_full_weight(param, full_weight(name, param, saved))

    def _load_histories(self, state: SessionState, *, convert: bool) -> None:
        """Where casts were converted, the histories of operands that are scaled alike go on, and others begin."""
        histories = dict(state.histories)
        if convert:
            own = self.conversion.histories()
            shapes = {name: history.shape for name, history in state.histories.items()}
            histories = {
                name: state.histories[name] if shapes.get(name) == history.shape else history
                for name, history in own.items()
            }
        self.conversion.load_histories(histories)

    def _fitting_losses(self, state: SessionState, *, convert: bool) -> dict[str, Mapping[str, Any]]:
        """The saved loss scales as far as they mean something here: of dynamic ones, within their bounds.

        A static one may have been changed by a guard.
        """
        fitting: dict[str, Mapping[str, Any]] = {}
        for name, saved in state.losses.items():
            spec = self.scales.spec(name)
            if saved["kind"] == spec.kind and (not convert or spec.kind != "static" or saved["scale"] == spec.initial):
                fitting[name] = {**saved, "scale": min(max(saved["scale"], spec.minimum), spec.maximum)}
        return fitting

    def _parameters(self) -> Iterator[tuple[str, Parameter, KeptWeights]]:
        owners = {param: kept for kept in self.kept.values() for param in kept.parameters()}
        for name, param in self.model.named_parameters():
            if param in owners:
                yield name, param, owners[param]
