"""What takes a run's records as they are made."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ...records import Record


@runtime_checkable
class Exporter(Protocol):
    """Brings records to where somebody looks; `mixprec.report.live.LiveView` is one too.

    Records come in the order in which the run makes them, all from one thread. What an exporter has no use for, it
    passes over.
    """

    def take(self, record: Record) -> None:
        """Take in one record; must neither change it nor wait long."""
        ...

    def close(self) -> None:
        """Bring out what is held back, and let go of files and sockets; may be called again."""
        ...
