"""Watches that remember something: what they go on with where a run is continued."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from ..tensors.trees import PackedState, pack_state, unpack_state
from ._step_watch import StepWatch
from .locate import Locator
from .recorder import FlightRecorder


@runtime_checkable
class Remembers(Protocol):
    """One who watches, with a state."""

    def state_dict(self) -> Mapping[str, Any]:
        """What it goes on with: plain values and tensors."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on with it."""
        ...


def watches_state(watches: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """The states of those watches that have one, by their names: a text of JSON, and the tensors that it names.

    As text, for keys that come and go with what was seen are more than torch's distributed checkpoint can load.

    Args:
        watches: in the order in which they are told.

    Raises:
        TypeError: a state with a value that cannot be stored without running code to read it.
    """
    return {name: _packed(name, watch) for name, watch in watches.items() if isinstance(watch, Remembers)}


def load_watches_state(watches: Mapping[str, object], state: Mapping[str, Mapping[str, Any]]) -> None:
    """Let those watches go on whose state is there, and that are there."""
    for name, watch in watches.items():
        if isinstance(watch, Remembers) and name in state:
            structure, tensors = json.loads(state[name]["text"]), dict(state[name].get("tensors", {}))
            watch.load_state_dict(unpack_state(PackedState({name: structure}, {name: tensors}))[name])


def _packed(name: str, watch: Remembers) -> dict[str, Any]:
    packed = pack_state({name: watch.state_dict()})
    return {"text": json.dumps(packed.structure[name]), "tensors": packed.tensors.get(name, {})}


def share_states(watches: Iterable[StepWatch]) -> None:
    """Let a flight recorder have the random states of a pass from the locator, which has taken them before."""
    made = list(watches)
    for locator in (watch for watch in made if isinstance(watch, Locator)):
        for recorder in (watch for watch in made if isinstance(watch, FlightRecorder)):
            recorder.take_states_from(locator.recording.states_of)
