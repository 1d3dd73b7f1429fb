"""A recipe: which layer trains in which precision, and how weights, gradients and activations are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, cast, get_args

from ..formats import unknown_name
from ._kinds import TEXT, WHOLE, check_kinds, check_text, tuple_of
from ._loss_scale import NOT_SAID, LossScale
from ._moments import Moments
from ._phase import Phase, check_phases, phase_at
from ._rule import Layer, Rule
from ._rule_kinds import check_rules

ComputeDtype = Literal["fp32", "bf16", "fp16"]
Residual = Literal["fp32", "compute"]
Weights = Literal["master", "true", "split", "stochastic", "kahan"]
Engine = Literal["auto", "native", "emulated"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides in which precision a model trains. Frozen; ``to_toml`` gives its file.

    Attributes:
        name: what the recipe is called in reports.
        rules: ordered; the first that matches a layer wins, and a layer that none matches stays in the
            compute dtype.
        compute_dtype: dtype of the activations between matrix products, by autocast's rules.
        residual: dtype of the residual stream: ``"fp32"``, which autocast gives, or ``"compute"``.
        loss_scale: how the loss is scaled. Left out it is dynamic (2^16, 2, 0.5, 2000) where the compute dtype is
            fp16, which loses small gradients without, else none; ``LossScale(kind="none")`` turns it off.
        weights: how the optimizer's parameters are kept. ``"master"``: they keep their dtype, and one of 16 bits gets
            an fp32 master. The others keep them in the compute dtype: ``"true"``: updates rounded to nearest;
            ``"stochastic"``: rounded stochastically (bf16); ``"kahan"``: with a bf16 compensation of what rounding
            lost (bf16); ``"split"``: an fp32 weight as its bf16 value and 16 remainder bits (bf16).
        moments: how an optimizer of ``mixprec.optim`` keeps its moments.
        engine: ``"native"``: the device multiplies the format; ``"emulated"``: rounded operands in a wider
            product; ``"auto"``: native where it is faster.
        phases: later rules, each set from a step on; the last that has begun replaces ``rules``.
        reason: why the recipe was chosen, where something chose it.

    Raises:
        ValueError: an empty name, an unknown choice, or phases out of order.
        TypeError: a name, rules, phases or a loss scale that are none.

    Example:
        >>> Recipe(name="mine", compute_dtype="bf16").loss_scale.kind
        'none'
        >>> Recipe(name="mine", compute_dtype="fp16").loss_scale.kind
        'dynamic'
    """

    name: str
    rules: tuple[Rule, ...] = ()
    compute_dtype: ComputeDtype = "fp32"
    residual: Residual = "fp32"
    loss_scale: LossScale = NOT_SAID
    weights: Weights = "master"
    moments: Moments = field(default_factory=Moments)
    engine: Engine = "auto"
    phases: tuple[Phase, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        check_kinds("recipe", self, {"name": TEXT, "reason": TEXT})
        if not self.name:
            raise ValueError("a recipe needs a name")
        choices = (
            ("compute dtype", self.compute_dtype, get_args(ComputeDtype)),
            ("residual", self.residual, get_args(Residual)),
            ("way to keep weights", self.weights, get_args(Weights)),
            ("engine", self.engine, get_args(Engine)),
        )
        for kind, got, known in choices:
            if got not in known:
                raise unknown_name(kind, got, known)
        if self.loss_scale is NOT_SAID and self.compute_dtype == "fp16":
            object.__setattr__(self, "loss_scale", LossScale(kind="dynamic"))  # frozen for everybody else
        self._check_parts()
        self._check_weights()
        check_phases(self.name, self.phases)

    def _check_weights(self) -> None:
        fitting = {"master": get_args(ComputeDtype), "true": ("bf16", "fp16")}.get(self.weights, ("bf16",))
        if self.compute_dtype not in fitting:
            raise ValueError(
                f"recipe '{self.name}' has weights='{self.weights}' with compute_dtype='{self.compute_dtype}': "
                f"expected {' or '.join(fitting)}"
            )

    def _check_parts(self) -> None:
        check_kinds(f"recipe '{self.name}'", self, {"rules": tuple_of(Rule), "phases": tuple_of(Phase)})
        check_rules(self.rules)
        if not isinstance(cast("object", self.loss_scale), LossScale):
            raise TypeError(
                f"recipe '{self.name}': loss_scale is {self.loss_scale!r}, expected a LossScale, e.g. "
                "LossScale(kind='dynamic')"
            )
        if not isinstance(cast("object", self.moments), Moments):
            raise TypeError(
                f"recipe '{self.name}': moments is {self.moments!r}, expected Moments, e.g. Moments(kind='bf16')"
            )

    @property
    def all_rules(self) -> tuple[Rule, ...]:
        """The rules of the beginning and of every phase."""
        return (*self.rules, *(rule for phase in self.phases for rule in phase.rules))

    @property
    def needs_total_steps(self) -> bool:
        """Whether a phase is said as a share of the run."""
        return any(phase.last is not None for phase in self.phases)

    def rule_for(self, layer: Layer) -> Rule | None:
        """Give the first rule that matches a layer, or ``None``."""
        return next((rule for rule in self.rules if rule.matches(layer)), None)

    def at(self, step: int, total_steps: int | None = None, begun: Mapping[str, int] = MappingProxyType({})) -> Recipe:
        """Give the recipe that holds at a step: this one, with the rules of the phase that has begun, and no phases.

        Args:
            step: steps that were applied before this one.
            total_steps: of the run; needed where a phase is said as a share of it.
            begun: the step at which a phase has begun that waits for a signal, by the signal.

        Raises:
            ValueError: ``total_steps`` is missing, or a number is out of its range.
            TypeError: a number that is no integer.

        Example:
            >>> from mixprec.specs import Phase
            >>> late = Recipe(name="late", rules=(Rule(),), phases=(Phase(last=0.2),))
            >>> len(late.at(79, 100).rules), len(late.at(80, 100).rules)
            (1, 0)
        """
        for name, value, least in (("step", step, 0), ("total_steps", total_steps, 1)):
            _check_count(name, value, least)
        phase = phase_at(self.name, self.phases, step, total_steps, begun)
        return replace(self, phases=(), rules=self.rules if phase is None else phase.rules)

    def to_toml(self) -> str:
        """Write the recipe as TOML text, which ``from_toml`` reads back to an equal recipe."""
        from ._toml import dump_recipe  # reads and makes recipes itself, so it cannot be imported before

        return dump_recipe(self)

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        """Read a recipe from TOML text.

        Raises:
            ValueError: the text is not TOML, has an unknown key, or a value that does not fit.
            TypeError: no text.
        """
        from ._toml import parse_recipe

        check_text("a recipe", text, 'name = "mine"')
        return parse_recipe(text)


def _check_count(name: str, value: int | None, least: int) -> None:
    if value is None and name == "total_steps":
        return
    if value is None or not WHOLE.holds(value):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}), expected an integer, {least} or more")
    if value < least:
        raise ValueError(f"{name} is {value}, expected {least} or more")


def resolve_residual(residual: str, compute_dtype: str) -> Residual:
    """Read a residual dtype that may be named by its dtype: ``"bf16"`` is ``"compute"`` in a bf16 recipe.

    Raises:
        ValueError: it is neither fp32 nor the compute dtype.

    Example:
        >>> resolve_residual("bf16", "bf16"), resolve_residual("fp32", "bf16")
        ('compute', 'fp32')
    """
    if residual == "fp32":
        return "fp32"
    if residual in ("compute", compute_dtype):
        return "compute"
    raise ValueError(f"residual is '{residual}', expected 'fp32' or 'compute' (here: {compute_dtype})")
