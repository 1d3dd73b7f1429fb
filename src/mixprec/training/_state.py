"""A session's state as plain values and tensors, which ``torch.load(weights_only=True)`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor

from ..specs import Recipe, recipe_differences
from ..tensors.trees import PackedState, pack_state, unpack_state

#: Version 1 had no number, one loss scale, masters only, and told its recipe's name alone.
SCHEMA = 2
_KEYS = ("recipe", "losses", "random", "applied", "skipped", "kept")
_LATER = ("schema", "optimizers", "histories", "monitor", "averages", "schedules", "phases", "guard")
_KEYS_1 = ("recipe", "loss_scale", "random", "applied", "skipped", "masters")


def is_session_state(state: object) -> bool:
    """Whether a mapping is what a session of any version gave, not a model's tensors.

    Example:
        >>> is_session_state({"weight": 1}), is_session_state({"schema": 2})
        (False, True)
    """
    return isinstance(state, Mapping) and ("schema" in state or {"masters", "applied"} <= set(cast("Any", state)))


def _empty() -> dict[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class SessionState:
    """What a session needs to continue bit for bit, beside the model's and the optimizers' own states.

    Attributes:
        name: of the recipe.
        recipe: ``None``: the state is of version 1.
        losses: kind, scale and counters of each loss scale, by the loss's name.
        random: ``[seed, offset]`` of the stochastic casts.
        applied: applied steps.
        skipped: skipped steps.
        kept: what is kept beside a 16-bit weight, by the parameter's name: ``master``, ``remainder`` or
            ``compensation``.
        optimizers: ``seed`` and ``applied`` of each optimizer, from which stochastic rounding of weights draws.
        histories: amaxes of earlier passes by operand, of delayed scales.
        monitor: open windows of the watches over updates, and what those who watch remember.
        averages: states of averaged weights, by name.
        schedules: states of learning-rate schedules, by the optimizer's name.
        guard: what one has seen and done.
        phases: which of them a signal has begun, and which sites are wider than the recipe says.
    """

    name: str
    recipe: Recipe | None
    losses: Mapping[str, Mapping[str, Any]]
    random: Tensor
    applied: int
    skipped: int
    kept: Mapping[str, Mapping[str, Tensor]]
    optimizers: Mapping[str, Mapping[str, int]] = field(default_factory=_empty)
    histories: Mapping[str, Tensor] = field(default_factory=_empty)
    monitor: Mapping[str, Any] = field(default_factory=_empty)
    averages: Mapping[str, Any] = field(default_factory=_empty)
    schedules: Mapping[str, Any] = field(default_factory=_empty)
    phases: Mapping[str, Any] = field(default_factory=_empty)
    guard: Mapping[str, Any] = field(default_factory=_empty)

    def to_dict(self) -> dict[str, Any]:
        """As a ``state_dict``."""
        return {
            "schema": SCHEMA,
            "recipe": {"name": self.name, "toml": "" if self.recipe is None else self.recipe.to_toml()},
            "losses": {name: dict(loss) for name, loss in self.losses.items()},
            "random": self.random,
            "applied": self.applied,
            "skipped": self.skipped,
            "kept": {name: dict(extras) for name, extras in self.kept.items()},
            "optimizers": {name: dict(position) for name, position in self.optimizers.items()},
            "histories": dict(self.histories),
            "monitor": dict(self.monitor),
            "averages": dict(self.averages),
            "schedules": {name: _packed(schedule) for name, schedule in self.schedules.items()},
            "phases": dict(self.phases),
            "guard": dict(self.guard),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> SessionState:
        """From a ``state_dict`` of this version or an earlier one.

        Raises:
            ValueError: a key is missing or unknown, or a newer version wrote it.
            TypeError: no mapping.
        """
        if not isinstance(cast("object", state), Mapping):
            raise TypeError(
                f"load_state_dict: got a {type(state).__name__}, expected the mapping that Session.state_dict() gave"
            )
        schema = state.get("schema", 1 if "masters" in state else None)
        if schema == 1:
            return _from_version_1(state)
        if isinstance(schema, int) and schema > SCHEMA:
            raise ValueError(
                f"load_state_dict: the state has schema {schema}, and this version of mixprec reads up to {SCHEMA}: "
                "upgrade mixprec"
            )
        _check_keys(state, _KEYS, _LATER)
        toml = state["recipe"]["toml"]
        return cls(
            name=state["recipe"]["name"],
            recipe=_read_recipe(toml) if toml else None,
            losses=state["losses"],
            random=state["random"],
            applied=int(state["applied"]),
            skipped=int(state["skipped"]),
            kept=state["kept"],
            optimizers=state.get("optimizers", {}),
            histories=state.get("histories", {}),
            monitor=state.get("monitor", {}),
            averages=state.get("averages", {}),
            schedules={name: _unpacked(schedule) for name, schedule in state.get("schedules", {}).items()},
            phases=state.get("phases", {}),
            guard=state.get("guard", {}),
        )

    def differences(self, own: SessionState) -> tuple[str, ...]:
        """What is not as in the session whose state is ``own``, and can be converted: recipe and loss scales."""
        if self.recipe is not None and own.recipe is not None:
            found = recipe_differences(self.recipe, own.recipe)
        else:
            found = () if self.name == own.name else (f"recipe: {self.name} -> {own.name}",)
        told = any(line.startswith("loss_scale.kind") for line in found)
        for name, loss in self.losses.items():
            kind = own.losses.get(name, next(iter(own.losses.values())))["kind"]  # a new name is scaled as the first
            if loss["kind"] != kind and not (told and name == next(iter(self.losses))):
                found += (f"loss scale of '{name}': {loss['kind']} -> {kind}",)
        ours, theirs = _ways(own.kept), _ways(self.kept)
        changed = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        if changed:
            some = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
            before, after = theirs.get(changed[0], "nothing"), ours.get(changed[0], "nothing")
            found += (f"kept beside 16-bit weights ({some}): {before} -> {after}",)
        return found

    def one_sided(self, own: SessionState) -> tuple[str, ...]:
        """Which averages and schedules only this state has, or only the session whose state is ``own``."""
        found: list[str] = []
        for what, otherwise, saved, here in (
            ("average", "begins from the weights that are loaded", self.averages, own.averages),
            ("schedule", "stays as it is", self.schedules, own.schedules),
        ):
            gone, new = sorted(saved.keys() - here.keys()), sorted(here.keys() - saved.keys())
            found += [f"{what} '{name}' of the state has no counterpart here" for name in gone]
            found += [f"{what} '{name}' is not in the state: it {otherwise}" for name in new]
        return tuple(found)

    def refuse_misfit(self, own: SessionState, *, convert: bool) -> None:
        """Refuse a state that the session whose state is ``own`` cannot load, before it changes.

        Args:
            own: of the session, by the same names of parameters.
            convert: whether what can be converted is taken.

        Raises:
            ValueError: something differs; the message lists it.
        """
        if not convert:
            self._refuse_other(own)
        for name in self.averages.keys() & own.averages.keys():
            theirs, ours = (_shapes(averages[name]["averages"]) for averages in (self.averages, own.averages))
            if theirs != ours:
                differing = sorted(n for n in theirs.keys() | ours.keys() if theirs.get(n) != ours.get(n))
                raise ValueError(
                    f"load_state_dict: average '{name}' of the state is of other parameters than the session's: "
                    f"{', '.join(differing[:5])}: make it over the same optimizers, or under another name"
                )
        theirs, ours = _shapes(self.histories), _shapes(own.histories)
        has_phases = own.recipe is not None and bool(own.recipe.phases)
        has_others = has_phases or bool(self.phases.get("widened") or own.phases.get("widened"))  # other operands
        if theirs != ours and not convert and not has_others:
            differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
            raise ValueError(
                f"load_state_dict: amax histories differ in {', '.join(differing[:5])}: got {len(theirs)} of them, "
                f"expected {len(ours)}: they must come from the same recipe and model"
            )

    def _refuse_other(self, own: SessionState) -> None:
        differences = self.differences(own)
        if differences:
            listed = "".join(f"\n  {line}" for line in differences)
            raise ValueError(
                f"load_state_dict: the state is of recipe {self.name}, the session has {own.name}; what differs "
                f"(saved -> here):{listed}\nprepare with the same recipe, or convert: convert=True keeps weights, "
                "moments and scales as this session does"
            )


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _packed(state: Any) -> dict[str, Any]:
    """A schedule's state as values under text alone: torch's distributed checkpoint turns other keys into text."""
    packed = pack_state({"schedule": state})
    return {"structure": packed.structure["schedule"], "tensors": packed.tensors.get("schedule", {})}


def _unpacked(packed: Mapping[str, Any]) -> Any:
    structure, tensors = {"schedule": packed["structure"]}, {"schedule": packed.get("tensors", {})}
    return unpack_state(PackedState(structure, tensors))["schedule"]


def _from_version_1(state: Mapping[str, Any]) -> SessionState:
    _check_keys(state, _KEYS_1, ("histories", "schema"))
    scale = state["loss_scale"]
    loss = {"kind": scale["kind"], "scale": float(scale["scale"]), "good_steps": int(scale["good_steps"])}
    return SessionState(
        name=state["recipe"],
        recipe=None,
        losses={"loss": loss | {"overflows": 0, "skipped_in_row": 0}},
        random=state["random"],
        applied=int(state["applied"]),
        skipped=int(state["skipped"]),
        kept={name: {"master": master} for name, master in state["masters"].items()},
        histories=state.get("histories", {}),  # the first states of version 1 had none
    )


def _check_keys(state: Mapping[str, Any], needed: tuple[str, ...], others: tuple[str, ...]) -> None:
    missing, unknown = sorted(set(needed) - set(state)), sorted(set(state) - {*needed, *others})
    if missing or unknown:
        raise ValueError(
            f"load_state_dict: missing keys {missing}, unknown keys {unknown[:5]}: expected what "
            "Session.state_dict() gave (not the model's or the optimizer's)"
        )


def _read_recipe(toml: str) -> Recipe:
    try:
        return Recipe.from_toml(toml)
    except ValueError as error:
        raise ValueError(f"load_state_dict: the recipe of the state cannot be read here: {error}") from None


def _ways(kept: Mapping[str, Mapping[str, Tensor]]) -> dict[str, str]:
    """How each weight is kept."""
    return {
        name: ", ".join(f"{kind} {list(extra.shape)}" for kind, extra in sorted(extras.items()))
        for name, extras in kept.items()
        if extras
    }
