"""What a training step will hold in memory, by kind, as a value that prints as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...records import percent

_SHOWN_SITES = 10


@dataclass(frozen=True, kw_only=True)
class MemoryForecast:
    """Bytes of a training step under a recipe: the kinds that ``Session.memory()`` measures, and the peak.

    A storage that several tensors share counts once.

    Attributes:
        recipe: its name.
        parameters: numbers in the model's parameters, each tensor once.
        weights: of the model's parameters.
        masters: what is kept of 16-bit weights beside them: fp32 masters, remainders or compensations.
        moments: of the optimizer's state, all tensors but ``counters``.
        counters: step counters and other single numbers of it.
        gradients: at the end of the backward pass.
        saved: what autograd holds when the backward pass begins, by the path of the module that saved it first.
        buffers: of the model.
        other: by what it is: cast workspaces, copies of buffers, random states, amax histories.
        peak: the most bytes of tensors alive at once in a step.
        samples: of the batch, ``None`` where it has no common first dimension.
        notes: how it was worked out, and what it leaves out.
    """

    recipe: str
    parameters: int
    weights: int
    masters: int
    moments: int
    counters: int
    gradients: int
    saved: Mapping[str, int]
    buffers: int
    other: Mapping[str, int] = field(default_factory=dict[str, int])
    peak: int
    samples: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> int:
        """What is there between steps: all but gradients and saved activations."""
        return self.weights + self.masters + self.moments + self.counters + self.buffers + sum(self.other.values())

    @property
    def saved_bytes(self) -> int:
        """Saved activations of all sites together."""
        return sum(self.saved.values())

    @property
    def by_kind(self) -> dict[str, int]:
        """What a training step needs, by kind."""
        return {
            "weights": self.weights,
            "masters": self.masters,
            "moments": self.moments,
            "counters": self.counters,
            "gradients": self.gradients,
            "buffers": self.buffers,
            **self.other,
            "saved activations": self.saved_bytes,
        }

    def __str__(self) -> str:
        lines = [f"memory of recipe {self.recipe}, predicted: {self.parameters:,} parameters"]
        rows = [(name, f"{n:,}", self._per_parameter(n)) for name, n in self.by_kind.items() if n]
        rows += [("peak", f"{self.peak:,}", self._per_parameter(self.peak)), *self._sites()]
        table = [("", "bytes", "per parameter"), *rows]
        widths = [max(len(row[i]) for row in table) for i in range(3)]
        lines += [f"  {a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}".rstrip() for a, b, c in table]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def _per_parameter(self, n: int) -> str:
        return f"{n / self.parameters:.3f}" if self.parameters else ""

    def _sites(self) -> list[tuple[str, str, str]]:
        ordered = sorted(self.saved.items(), key=lambda item: -item[1])
        shown, rest = ordered[:_SHOWN_SITES], ordered[_SHOWN_SITES:]
        told = [(f"  {site}", n) for site, n in shown]
        told += [(f"  {len(rest)} other sites", sum(n for _, n in rest))] if rest else []
        return [(name, f"{n:,}", percent(n / self.saved_bytes)) for name, n in told]
