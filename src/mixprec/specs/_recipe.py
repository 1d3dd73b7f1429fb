"""A recipe: which layer trains in which precision, and how weights, gradients and activations are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, get_args

from ..formats import unknown_name
from ._layer import LayerPrecision

ComputeDtype = Literal["fp32", "bf16", "fp16"]
Residual = Literal["fp32", "compute"]
Weights = Literal["master", "true"]
Engine = Literal["auto", "native", "emulated"]
LossScaleKind = Literal["none", "static", "dynamic"]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Which layers get which precision. In a recipe the first rule that matches a layer wins.

    Attributes:
        match: glob on the module path, case-sensitive (``*`` crosses dots), e.g. ``"blocks.*.mlp.*"``.
        type: name of the module's class, e.g. ``"Linear"``; ``None``: any.
        divisible_by: every one of the layer's feature counts must be a multiple of it; ``None``: any.
        min_size: every one of the layer's feature counts must be at least this; ``None``: any.
        precision: the layer's casts; ``None`` leaves the layer in the compute dtype.
        required: whether it is worth an event when no layer matches, or a matched one cannot be converted.

    Raises:
        ValueError: an empty glob or class name, or a size below 1.

    Example:
        >>> rule = Rule(match="blocks.*", type="Linear", divisible_by=32)
        >>> rule.matches("blocks.3.mlp.fc2", "Linear", (64, 256))
        True
    """

    match: str = "*"
    type: str | None = None
    divisible_by: int | None = None
    min_size: int | None = None
    precision: LayerPrecision | None = None
    required: bool = True

    def __post_init__(self) -> None:
        if not self.match or self.type == "":
            raise ValueError(f"rule has match='{self.match}', type='{self.type}': expected a glob and a class name")
        for name, size in (("divisible_by", self.divisible_by), ("min_size", self.min_size)):
            if size is not None and size < 1:
                raise ValueError(f"rule for '{self.match}' has {name}={size}, expected 1 or more")

    def matches(self, path: str, type_name: str, features: Sequence[int]) -> bool:
        """Tell whether the rule is for a layer.

        Args:
            path: the module's path, as ``named_modules`` gives it.
            type_name: name of the module's class; for a converted or registered module, of the class that
                it stands for.
            features: the layer's feature counts: (output, input) for a linear layer. Where there are none,
                ``divisible_by`` and ``min_size`` exclude nothing.
        """
        return (
            fnmatchcase(path, self.match)
            and (self.type is None or self.type == type_name)
            and (self.divisible_by is None or all(size % self.divisible_by == 0 for size in features))
            and (self.min_size is None or all(size >= self.min_size for size in features))
        )


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """By what the loss is multiplied, so that small gradients survive a narrow exponent.

    Attributes:
        kind: ``"none"``; ``"static"``: always ``initial``; ``"dynamic"``: shrinks when a gradient is not
            finite and grows after ``interval`` steps without.
        initial: the first scale.
        growth: factor at growth, above 1.
        backoff: factor after a step that was skipped, between 0 and 1.
        interval: applied steps from one change to growth.
        maximum: the largest scale.
        minimum: the smallest scale; reaching it is an event.

    Raises:
        ValueError: an unknown kind, or numbers out of order.

    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740; the defaults are those of
    ``torch.amp.GradScaler``.

    Example:
        >>> LossScale(kind="dynamic").initial
        65536.0
    """

    kind: LossScaleKind = "none"
    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000
    maximum: float = 2.0**127
    minimum: float = 2.0**-24

    def __post_init__(self) -> None:
        if self.kind not in get_args(LossScaleKind):
            raise unknown_name("loss scale", self.kind, get_args(LossScaleKind))
        if not 0 < self.minimum <= self.initial <= self.maximum <= 2.0**127:
            raise ValueError(
                f"loss scale has minimum={self.minimum}, initial={self.initial}, maximum={self.maximum}: "
                "expected 0 < minimum <= initial <= maximum <= 2**127"
            )
        if not (1 < self.growth < float("inf") and 0 < self.backoff < 1 and self.interval >= 1):
            raise ValueError(
                f"loss scale has growth={self.growth}, backoff={self.backoff}, interval={self.interval}: "
                "expected growth above 1, backoff between 0 and 1, interval 1 or more"
            )


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides in which precision a model trains. Frozen; ``to_toml`` gives its file.

    Attributes:
        name: what the recipe is called in reports.
        rules: ordered; the first that matches a layer wins, and a layer that none matches stays in the
            compute dtype.
        compute_dtype: dtype of the activations between matrix products, by autocast's rules.
        residual: dtype of the residual stream: ``"fp32"``, which autocast gives, or ``"compute"``.
        loss_scale: how the loss is scaled.
        weights: ``"master"``: parameters keep their dtype, and one of 16 bits gets an fp32 master;
            ``"true"``: 16-bit parameters without a master.
        engine: ``"native"``: the device multiplies the format; ``"emulated"``: rounded operands in a wider
            product; ``"auto"``: native where it is faster.
        reason: why the recipe was chosen, where something chose it.

    Raises:
        ValueError: an empty name, or an unknown choice.

    Example:
        >>> Recipe(name="mine", compute_dtype="bf16").loss_scale.kind
        'none'
    """

    name: str
    rules: tuple[Rule, ...] = ()
    compute_dtype: ComputeDtype = "fp32"
    residual: Residual = "fp32"
    loss_scale: LossScale = field(default_factory=LossScale)
    weights: Weights = "master"
    engine: Engine = "auto"
    reason: str = ""

    def __post_init__(self) -> None:
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
        if self.weights == "true" and self.compute_dtype == "fp32":
            raise ValueError(
                f"recipe '{self.name}' has weights='true' with compute_dtype='fp32': expected bf16 or fp16"
            )

    def rule_for(self, path: str, type_name: str, features: Sequence[int]) -> Rule | None:
        """Give the first rule that matches a layer, or ``None``; the arguments are those of ``Rule.matches``."""
        return next((rule for rule in self.rules if rule.matches(path, type_name, features)), None)

    def to_toml(self) -> str:
        """Write the recipe as TOML text, which ``from_toml`` reads back to an equal recipe."""
        from ._toml import dump_recipe  # reads and makes recipes itself, so it cannot be imported before

        return dump_recipe(self)

    @classmethod
    def from_toml(cls, text: str) -> Recipe:
        """Read a recipe from TOML text.

        Raises:
            ValueError: the text is not TOML, has an unknown key, or a value that does not fit.
        """
        from ._toml import parse_recipe

        return parse_recipe(text)


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
