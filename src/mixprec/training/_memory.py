"""What a session holds in memory, by kind, as a value that prints as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..records import percent

#: Where saved activations are told that no module of the model made.
LOSS = "<loss>"
#: Sites that are printed; the others are summed up.
_SHOWN_SITES = 10


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes that a session holds: measured, every storage once and whole; ``print`` it for a table.

    A storage that several tensors share (tied weights, views) counts once, under the first of these kinds. What was not
    measured is ``None``, never 0.

    Attributes:
        recipe: its name.
        parameters: numbers in the model's parameters, each tensor once.
        weights: of the model's parameters.
        masters: what is kept of 16-bit weights beside them: fp32 masters, remainders or compensations.
        moments: of the optimizers' states, all tensors but ``counters``.
        counters: step counters and other single numbers of the optimizers' states and groups.
        gradients: that are there now.
        most_gradients: that were there at the end of the measured step's last backward pass.
        saved: what autograd held for backward passes when the measured step's first one began, by the path of the
            module whose operations saved it first: ``"<model>"`` for those of the root itself, ``"<loss>"`` for those
            outside of the model. Weights, buffers and what else is counted here are not in it; a batch is.
        buffers: of the model.
        other: by what it is: averages of weights, amax histories, random states (of passes that may be repeated too),
            codes of weights, cast workspaces (of the calling thread), copies of buffers, samples of the update watch.
        from_step: applied steps before the measured one.
        notes: what the numbers leave out, and what to do.

    Example:
        >>> import torch
        >>> from mixprec.training import prepare
        >>> model = torch.nn.Linear(8, 4)
        >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), "fp32")
        >>> _ = session.step(torch.tanh(model(torch.ones(16, 8))).sum())
        >>> memory = session.memory()
        >>> memory.weights, memory.moments, memory.saved
        (144, 144, {'<model>': 512, '<loss>': 256})
    """

    recipe: str
    parameters: int
    weights: int
    masters: int
    moments: int
    counters: int
    gradients: int
    most_gradients: int | None
    saved: Mapping[str, int] | None
    buffers: int
    other: Mapping[str, int] = field(default_factory=dict[str, int])
    from_step: int = 0
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> int:
        """All that is held now; after a step nothing is saved for a backward pass."""
        return self.kept + self.gradients

    @property
    def kept(self) -> int:
        """What is there between steps: all but gradients and saved activations."""
        return self.weights + self.masters + self.moments + self.counters + self.buffers + sum(self.other.values())

    @property
    def saved_bytes(self) -> int | None:
        """Saved activations of all sites together."""
        return None if self.saved is None else sum(self.saved.values())

    @property
    def by_kind(self) -> dict[str, int]:
        """What a training step needs, by kind: gradients and saved activations at their most, once measured."""
        kinds = {
            "weights": self.weights,
            "masters": self.masters,
            "moments": self.moments,
            "counters": self.counters,
            "gradients": max(self.gradients, self.most_gradients or 0),
            "buffers": self.buffers,
            **self.other,
        }
        return kinds if self.saved is None else {**kinds, "saved activations": sum(self.saved.values())}

    def __str__(self) -> str:
        lines = [f"memory of recipe {self.recipe}: {self.parameters:,} parameters"]
        rows = [("", "bytes", "per parameter")]
        rows += [self._row(name, n) for name, n in self._told()]
        lines += _aligned(rows + self._sites())
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    def _told(self) -> list[tuple[str, int]]:
        """Kinds with their bytes; gradients twice where they have been more."""
        told: list[tuple[str, int]] = []
        for name, n in self.by_kind.items():
            if name == "gradients":
                told += [("gradients now", self.gradients)] if n != self.gradients else []
                told.append(("gradients after a backward pass" if n != self.gradients else "gradients", n))
            elif n or name in ("weights", "moments", "saved activations"):
                told.append((name, n))
        return told

    def _row(self, name: str, n: int) -> tuple[str, str, str]:
        return name, f"{n:,}", f"{n / self.parameters:.3f}" if self.parameters else ""

    def _sites(self) -> list[tuple[str, str, str]]:
        if self.saved is None:
            return [("saved activations", "not measured", "")]
        ordered = sorted(self.saved.items(), key=lambda item: -item[1])
        total = sum(self.saved.values())
        shown = [(f"  {site}", f"{n:,}", percent(n / total)) for site, n in ordered[:_SHOWN_SITES]]
        rest = ordered[_SHOWN_SITES:]
        if rest:
            n = sum(n for _, n in rest)
            shown.append((f"  {len(rest)} other sites", f"{n:,}", percent(n / total)))
        return shown


def _aligned(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    cells = list(rows)
    widths = [max(len(row[i]) for row in cells) for i in range(3)]
    return [
        f"  {name.ljust(widths[0])}  {n.rjust(widths[1])}  {share.rjust(widths[2])}".rstrip()
        for name, n, share in cells
    ]
