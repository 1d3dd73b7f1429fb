"""What a watcher has found: what, where, how it shows, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..records import FindingRecord, Severity


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong with a run, or will be.

    Attributes:
        step: applied steps before it.
        name: its kind, e.g. ``"loss spike"``.
        severity: ``"fault"``: numbers are wrong; ``"warning"``: they will be, or quality suffers; ``"note"``: ordinary.
        site: module path and role, or a parameter's name; empty where it has none.
        message: one sentence.
        evidence: what was measured, by name.
        threshold: what it was compared with, in words.
        remedy: what to do, in words.
        rule: what to add to the recipe, as TOML; empty where the remedy is none of the recipe's.

    Example:
        >>> print(Finding(step=7, name="loss spike", severity="warning", message="the loss is 9.1, 4 MAD above 2.3"))
        step 7: warning: the loss is 9.1, 4 MAD above 2.3
    """

    step: int
    name: str
    severity: Severity
    message: str
    site: str = ""
    evidence: Mapping[str, float | str] = field(default_factory=dict[str, float | str])
    threshold: str = ""
    remedy: str = ""
    rule: str = ""

    def __str__(self) -> str:
        where = f"{self.site}: " if self.site and self.site not in self.message else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"step {self.step}: {self.severity}: {where}{self.message}{remedy}"

    def record(self, recipe: str, seed: int) -> FindingRecord:
        """The finding as a line of a run's records."""
        return FindingRecord(
            recipe=recipe,
            seed=seed,
            step=self.step,
            name=self.name,
            severity=self.severity,
            site=self.site,
            message=self.message,
            evidence=self.evidence,
            threshold=self.threshold,
            remedy=self.remedy,
            rule=self.rule,
        )
