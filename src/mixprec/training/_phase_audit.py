"""The audit of the phase that runs: measured in its first step."""

from __future__ import annotations

from dataclasses import replace

from ..nn import Audit, Conversion, is_without_session


class PhaseAudit:
    """Has a conversion measure the first step of each phase, and knows which step that was.

    Args:
        conversion: of the model.
    """

    def __init__(self, conversion: Conversion) -> None:
        self._conversion = conversion
        self._asked = self._measured = 0
        conversion.measure_next_step()

    def begin(self, step: int) -> None:
        """Other rules hold from ``step`` on: measure it."""
        self._settle()
        self._asked = step
        self._conversion.measure_next_step()

    def audit(self) -> Audit:
        """The last measured step; a note says where rules hold that were not measured yet."""
        self._settle()
        audit = self._conversion.audit()
        notes = tuple(note for note in audit.notes if not is_without_session(note))
        if audit.rows and self._measured != self._asked:
            notes += (
                f"from step {self._asked} on the rules of a later phase hold, which are not measured yet: run one "
                "training step",
            )
        return replace(audit, from_step=self._measured, notes=notes)

    def _settle(self) -> None:
        if not self._conversion.is_measuring:
            self._measured = self._asked
