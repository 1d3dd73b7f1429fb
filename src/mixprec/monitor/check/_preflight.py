"""What a check has found; ``print`` it to read it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from .._finding import Finding


@dataclass(frozen=True, kw_only=True)
class Preflight(Sequence[Finding]):
    """The findings of one watched step, the faults first; a sequence of them.

    Attributes:
        findings: what was found.
        recipe: its name; empty for a model that is not converted.
        operations: how many operations were watched.

    Example:
        >>> print(Preflight(findings=(), recipe="bf16", operations=12))
        check of recipe bf16: nothing was found in one step of 12 operations
    """

    findings: tuple[Finding, ...]
    recipe: str = ""
    operations: int = 0

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What gives wrong numbers."""
        return tuple(f for f in self.findings if f.severity == "fault")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What will, or costs quality."""
        return tuple(f for f in self.findings if f.severity == "warning")

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Finding, ...]: ...
    def __getitem__(self, index: int | slice) -> Finding | tuple[Finding, ...]:
        return self.findings[index]

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        what = f"recipe {self.recipe}" if self.recipe else "the model as it is"
        if not self.findings:
            return f"check of {what}: nothing was found in one step of {self.operations} operations"
        counts = {kind: sum(f.severity == kind for f in self.findings) for kind in ("fault", "warning", "note")}
        told = ", ".join(f"{n} {kind}{'s' if n > 1 else ''}" for kind, n in counts.items() if n)
        return "\n".join([f"check of {what}: {told} in one step", *(_told(finding) for finding in self.findings)])


def _told(finding: Finding) -> str:
    evidence = ", ".join(f"{name} {_number(value)}" for name, value in finding.evidence.items())
    parts = [f"{finding.severity}: {finding.site}: {finding.name}", f"  {finding.message}"]
    parts += [f"  {name}: {text}" for name, text in (("evidence", evidence), ("threshold", finding.threshold)) if text]
    parts += [f"  remedy: {finding.remedy}"] if finding.remedy else []
    parts += ["  for the recipe:", textwrap.indent(finding.rule.strip(), "    ")] if finding.rule else []
    return textwrap.indent("\n".join(parts), "  ")


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
