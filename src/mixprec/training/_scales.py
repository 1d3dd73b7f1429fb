"""The scale of every loss of a session, by name, and when it changes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from ..loss_scaling import ScaleEvent, ScaleState, after_step, init
from ..specs import LossScale

#: What a loss is called that was given no name.
DEFAULT = "loss"


@dataclass
class _Scale:
    """A loss's scale in its present round, which lasts from a backward pass to the next one after a step."""

    spec: LossScale
    state: ScaleState
    before: ScaleState
    is_decided: bool = False
    is_shrunk: bool = False


class LossScales:
    """Loss scales by the loss's name; a name is made when it is first used.

    A scale changes once per round: the first step after a backward pass decides. Where another optimizer steps in the
    same round and is not finite, the round as a whole was not: the scale shrinks from what it was before.

    Args:
        spec: of every loss that has none of its own.
        others: of those that have, by name.

    Example:
        >>> scales = LossScales(LossScale(kind="dynamic", initial=8.0, interval=1))
        >>> _ = scales.decide("loss", True), scales.decide("loss", True)
        >>> scales.scale("loss")
        16.0
        >>> _ = scales.decide("loss", False)
        >>> scales.scale("loss")
        4.0
    """

    def __init__(self, spec: LossScale, others: Mapping[str, LossScale] | None = None) -> None:
        self._spec = spec
        self._scales: dict[str, _Scale] = {}
        self._new: set[str] = set()
        for name, own in {DEFAULT: spec, **(others or {})}.items():
            self._make(name, own)
        self._new.clear()

    @property
    def names(self) -> tuple[str, ...]:
        """Of the losses that are known, the default one first."""
        return tuple(self._scales)

    def scale(self, name: str) -> float:
        """What the next loss of that name is multiplied by."""
        return self._of(name).state.scale

    def state(self, name: str) -> ScaleState:
        """Scale and counters of a loss."""
        return self._of(name).state

    def spec(self, name: str) -> LossScale:
        """How a loss is scaled."""
        return self._of(name).spec

    def begin(self, name: str) -> float:
        """A backward pass of that loss begins, and a new round where the last one was decided; give its scale."""
        scale = self._of(name)
        if scale.is_decided:
            scale.is_decided = scale.is_shrunk = False
        return scale.state.scale

    def decide(self, name: str, is_finite: bool) -> tuple[ScaleEvent, ...]:
        """A step was taken or skipped with gradients of that loss; give what there is to tell of its scale."""
        scale = self._of(name)
        self._new.discard(name)
        if scale.is_decided and (is_finite or scale.is_shrunk):
            return ()
        scale.before = scale.before if scale.is_decided else scale.state
        scale.state, events = after_step(scale.spec, scale.before, is_finite)
        scale.is_decided, scale.is_shrunk = True, not is_finite
        return events

    def multiply(self, factor: float) -> None:
        """Change the scale of every loss that is scaled by a fixed number."""
        for scale in self._scales.values():
            if scale.spec.kind == "static":
                scale.state = replace(scale.state, scale=scale.state.scale * factor)

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Kind, scale and counters of each loss; plain values."""
        return {name: {"kind": scale.spec.kind, **asdict(scale.state)} for name, scale in self._scales.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue from a ``state_dict()``; losses that it does not know begin anew.

        Raises:
            ValueError: a loss that is scaled in another way; nothing is changed then.
        """
        for name, saved in state.items():
            spec = self._scales[name].spec if name in self._scales else self._spec
            if saved["kind"] != spec.kind:
                raise ValueError(
                    f"load_state_dict: the state is of loss scale {saved['kind']}, the session has {spec.kind} for "
                    f"loss '{name}': prepare with the same loss scale"
                )
        for name, scale in self._scales.items():
            if name not in state:
                scale.state = init(scale.spec)
        for name, saved in state.items():
            scale = self._of(name)
            counters = {key: int(saved.get(key, 0)) for key in ("good_steps", "overflows", "skipped_in_row")}
            scale.state = ScaleState(float(saved["scale"]), **counters)
        self._new.clear()
        self.forget_round()

    def forget_round(self) -> None:
        """Gradients in flight were dropped: the next backward pass begins a round."""
        for scale in self._scales.values():
            scale.is_decided = scale.is_shrunk = False
        self.forget_new()

    def forget_new(self, apart_from: Container[str] = ()) -> None:
        """Losses that no step was taken with are unknown again: another rank may never hear of them."""
        for name in [name for name in self._new if name not in apart_from]:
            self._new.remove(name)
            del self._scales[name]

    def begin_all(self, names: Iterable[str]) -> None:
        """A step without a backward pass of these losses is a round of its own."""
        for name in names:
            self.begin(name)

    def _of(self, name: str) -> _Scale:
        return self._scales[name] if name in self._scales else self._make(name, self._spec)

    def _make(self, name: str, spec: LossScale) -> _Scale:
        if not isinstance(cast("object", name), str) or not name:
            raise TypeError(f"the name of a loss is {name!r}, expected a text that is not empty")
        state = init(spec)
        self._new.add(name)
        return self._scales.setdefault(name, _Scale(spec, state, state))
