"""What a run must keep to: quality, latency, memory, cost, and what layers may be given."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ..records import Better, better_by_name
from ..specs import Rule

#: Read by pydantic where a file is loaded: a key that no field has is refused, and no text counts as a number.
_STRICT: Mapping[str, object] = {"extra": "forbid", "strict": True}


@dataclass(frozen=True, kw_only=True)
class QualityTarget:
    """The largest gap of a metric to the baseline's, in the direction that is worse.

    Attributes:
        absolute: in the metric's units.
        relative: over the baseline's value.
        better: whether a ``"lower"`` or a ``"higher"`` value of the metric is better; ``None``: as its name tells,
            which it does of a loss and of a perplexity alone (``mixprec.records.better_by_name``).

    Raises:
        ValueError: neither, both, or a gap that is negative or not finite.

    Example:
        >>> QualityTarget(relative=0.01).largest_gap(2.0)
        0.02
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    absolute: float | None = None
    relative: float | None = None
    better: Literal["lower", "higher"] | None = None

    def __post_init__(self) -> None:
        _check_numbers(absolute=self.absolute, relative=self.relative)
        if (self.absolute is None) == (self.relative is None):
            given = "neither" if self.absolute is None else "both"
            raise ValueError(f"a quality target has {given} of absolute and relative: expected one of them")

    @property
    def said(self) -> str:
        """In words, for whoever reads a plan's file."""
        gap = f"{self.absolute:g}" if self.absolute is not None else f"{self.relative:g} of the baseline's"
        return f"at most {gap} {'lower' if self.better == 'higher' else 'higher'}"

    def largest_gap(self, baseline: float) -> float:
        """The largest gap in the metric's units, where the baseline's value is this."""
        return self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(baseline)


@dataclass(frozen=True, kw_only=True)
class LatencyTarget:
    """The largest time of a training step: over the baseline's (``ratio``), or in milliseconds; or both."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    ratio: float | None = None
    milliseconds: float | None = None

    def __post_init__(self) -> None:
        _check_numbers(ratio=self.ratio, milliseconds=self.milliseconds)


@dataclass(frozen=True, kw_only=True)
class MemoryTarget:
    """The largest peak of memory: in bytes, or over the baseline's (``share``); or both."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    bytes: int | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        _check_numbers(bytes=self.bytes, share=self.share)


@dataclass(frozen=True, kw_only=True)
class CostTarget:
    """The most that a run may cost, in the currency of the hardware's price."""

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    largest: float

    def __post_init__(self) -> None:
        _check_numbers(largest=self.largest)


@dataclass(frozen=True, kw_only=True)
class LayerTarget:
    """What layers may be given: of the candidates of a plan only these.

    The conditions are those of a recipe's rule, and all must hold; every layer target that meets a layer counts.

    Attributes:
        candidates: names of candidates; ``"keep"`` leaves a layer in the compute dtype.
        match: glob on the module path.
        type: name of the module's class.
        first_blocks: only the first repeated blocks: a number, or a share below 1.
        last_blocks: only the last ones.
        head: only what makes the model's output.
        embeddings: only what stands before the repeated blocks.

    Raises:
        ValueError: no candidates, or a condition that no rule can have.

    Example:
        >>> LayerTarget(head=True, candidates=("keep",)).said
        'the head: keep alone'
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    candidates: tuple[str, ...]
    match: str = "*"
    type: str | None = None
    first_blocks: float | None = None
    last_blocks: float | None = None
    head: bool = False
    embeddings: bool = False

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError(f'layers "{self.match}" may have no candidates: expected at least one, e.g. ["keep"]')
        _ = self.rule  # refuses what no rule can ask

    @property
    def rule(self) -> Rule:
        """The conditions as a rule."""
        return Rule(
            match=self.match,
            type=self.type,
            first_blocks=self.first_blocks,
            last_blocks=self.last_blocks,
            head=self.head,
            embeddings=self.embeddings,
        )

    @property
    def said(self) -> str:
        """In words, for whoever is told why a layer has not what it could."""
        conditions = (
            (self.match != "*", f"'{self.match}'"),
            (self.type is not None, f"type {self.type}"),
            (self.first_blocks is not None, f"first {self.first_blocks} blocks"),
            (self.last_blocks is not None, f"last {self.last_blocks} blocks"),
            (self.head, "the head"),
            (self.embeddings, "embeddings"),
        )
        return f"{', '.join(text for holds, text in conditions if holds) or 'all'}: {', '.join(self.candidates)} alone"


@dataclass(frozen=True, kw_only=True)
class Targets:
    """What a run must keep to. Every field is optional; what is left out is no target.

    Attributes:
        quality: the largest gap to the baseline by metric; ``"loss"`` is what a plan's budget comes from.
        latency: of a step.
        memory: at its peak.
        cost: of the run.
        layers: what layers may be given.

    Raises:
        ValueError: a metric of which neither its target nor its name tells which values are better.

    Example:
        >>> Targets(quality={"loss": QualityTarget(absolute=0.01)}).loss_budget(2.5)
        0.01
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = _STRICT

    quality: Mapping[str, QualityTarget] = field(default_factory=dict[str, QualityTarget])
    latency: LatencyTarget = field(default_factory=LatencyTarget)
    memory: MemoryTarget = field(default_factory=MemoryTarget)
    cost: CostTarget | None = None
    layers: tuple[LayerTarget, ...] = ()

    def __post_init__(self) -> None:
        _ = self.directions  # refuses what nobody told

    @property
    def directions(self) -> Mapping[str, Better]:
        """Which values of each metric of ``quality`` are better."""
        return {name: _direction(name, target) for name, target in self.quality.items()}

    def loss_budget(self, baseline: float) -> float | None:
        """The largest change of the loss where the baseline's is this; ``None`` without a target for it."""
        target = self.quality.get("loss")
        return None if target is None else target.largest_gap(baseline)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Targets:
        r"""Read a TOML file of targets.

        Args:
            path: of the file; ``mixprec init --targets FILE`` writes one to start from.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no TOML, or holds a key or value that is no target; the message names the place.

        Example:
            >>> import pathlib, tempfile
            >>> file = pathlib.Path(tempfile.mkdtemp()) / "targets.toml"
            >>> _ = file.write_text('[quality]\nloss = 0.01\n[latency]\nratio = 0.8\n')
            >>> Targets.load(file).latency.ratio
            0.8
        """
        from ._targets_file import read_targets  # which makes targets itself

        return read_targets(path)


def _direction(name: str, target: QualityTarget) -> Better:
    better = target.better or better_by_name(name)
    if better is None:
        unit, gap = ("absolute", target.absolute) if target.relative is None else ("relative", target.relative)
        key = name if name.replace("_", "").replace("-", "").isalnum() else f'"{name}"'
        raise ValueError(
            f"quality.{name} does not tell which values are better, and the name says it of a loss or a perplexity "
            f'alone: write {key} = {{ {unit} = {gap:g}, better = "higher" }}, or "lower"'
        )
    return better


def _check_numbers(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}, expected a finite number, 0 or more")
