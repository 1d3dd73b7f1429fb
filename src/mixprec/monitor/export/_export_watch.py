"""Exporters as one who watches a loop: closed with it."""

from __future__ import annotations

from collections.abc import Sequence

from ...records import Record
from .._step_watch import QuietWatch
from ._exporters import Exporters


class ExportWatch(QuietWatch):
    """Closes exporters at the loop's end; ``hear`` hands them the records of steps, and those that watches make.

    Args:
        exporters: that get the records.
    """

    def __init__(self, exporters: Exporters) -> None:
        self._exporters = exporters

    def hear(self, records: Sequence[Record]) -> None:
        """Records, in the order in which the run makes them."""
        self._exporters.hear(records)

    def close(self) -> None:
        """Close the exporters."""
        self._exporters.close()
