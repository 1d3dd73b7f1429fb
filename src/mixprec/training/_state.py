"""A session's state as plain values and tensors, which ``torch.load(weights_only=True)`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor

from ..loss_scaling import ScaleState

_KEYS = ("recipe", "loss_scale", "random", "applied", "skipped", "masters", "histories")


@dataclass(frozen=True, kw_only=True)
class SessionState:
    """What a session needs to continue bit for bit, beside the model's and the optimizer's own states.

    Attributes:
        recipe: its name.
        loss_scale_kind: of the recipe.
        scale: the loss scale.
        random: ``[seed, offset]`` of the stochastic casts.
        applied: applied steps.
        skipped: skipped steps.
        masters: fp32 masters by the parameter's name.
        histories: amaxes of earlier passes by operand, of delayed scales.
    """

    recipe: str
    loss_scale_kind: str
    scale: ScaleState
    random: Tensor
    applied: int
    skipped: int
    masters: Mapping[str, Tensor]
    histories: Mapping[str, Tensor]

    def to_dict(self) -> dict[str, Any]:
        """As a ``state_dict``."""
        return {
            "recipe": self.recipe,
            "loss_scale": {
                "kind": self.loss_scale_kind,
                "scale": self.scale.scale,
                "good_steps": self.scale.good_steps,
            },
            "random": self.random,
            "applied": self.applied,
            "skipped": self.skipped,
            "masters": dict(self.masters),
            "histories": dict(self.histories),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> SessionState:
        """From a ``state_dict``.

        Raises:
            ValueError: a key is missing or unknown.
            TypeError: no mapping.
        """
        if not isinstance(cast("object", state), Mapping):
            raise TypeError(
                f"load_state_dict: got a {type(state).__name__}, expected the mapping that Session.state_dict() gave"
            )
        state = {"histories": {}, **state}  # states of version 0.1 have none
        missing, unknown = sorted(set(_KEYS) - set(state)), sorted(set(state) - set(_KEYS))
        if missing or unknown:
            raise ValueError(
                f"load_state_dict: missing keys {missing}, unknown keys {unknown}: expected what "
                "Session.state_dict() gave (not the model's or the optimizer's)"
            )
        scale = state["loss_scale"]
        return cls(
            recipe=state["recipe"],
            loss_scale_kind=scale["kind"],
            scale=ScaleState(float(scale["scale"]), int(scale["good_steps"])),
            random=state["random"],
            applied=int(state["applied"]),
            skipped=int(state["skipped"]),
            masters=state["masters"],
            histories=state["histories"],
        )

    def refuse_other(self, own: SessionState) -> None:
        """Raise a ``ValueError`` when this state is not one of the session whose state is ``own``."""
        for what, saved, here in (
            ("recipe", self.recipe, own.recipe),
            ("loss scale", self.loss_scale_kind, own.loss_scale_kind),
        ):
            if saved != here:
                raise ValueError(
                    f"load_state_dict: the state is of {what} {saved}, the session has {here}: prepare with the same "
                    "recipe, or continue without this state (the model's and the optimizer's load under any recipe)"
                )
        theirs = {name: tuple(master.shape) for name, master in self.masters.items()}
        ours = {name: tuple(master.shape) for name, master in own.masters.items()}
        if theirs != ours:
            differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
            raise ValueError(
                f"load_state_dict: masters differ in {', '.join(differing[:5])}: got {len(theirs)}, expected "
                f"{len(ours)}: the model's 16-bit parameters must be those that were saved"
            )
