"""Several exporters as one, of which none can end the training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

from ...records import Record
from ._exporter import Exporter


class Exporters:
    """Hands each record to several exporters.

    An exporter that raises (a full disk, a server that is gone) is told once as a ``RuntimeWarning``, closed and left
    out from then on: training goes on, and so do the others.

    Args:
        exporters: who is told, in this order.

    Raises:
        TypeError: one of them is no exporter.

    Example:
        >>> import io
        >>> from mixprec.monitor.export import JsonLinesExporter
        >>> from mixprec.records import RunEndRecord
        >>> out = io.StringIO()
        >>> exporters = Exporters([JsonLinesExporter(out)])
        >>> exporters.take(RunEndRecord(recipe="bf16", seed=0, status="done"))
        >>> exporters.close()
        >>> out.getvalue().startswith('{"schema": ')
        True
    """

    def __init__(self, exporters: Iterable[Exporter] = ()) -> None:
        self._active = list(exporters)
        check_exporters("exporters", self._active)

    @property
    def active(self) -> tuple[Exporter, ...]:
        """Those that have not failed and are not closed."""
        return tuple(self._active)

    def take(self, record: Record) -> None:
        """Hand one record to all."""
        for exporter in self.active:
            self._try(exporter, lambda exporter=exporter: exporter.take(record))

    def hear(self, records: Iterable[Record]) -> None:
        """Hand several records to all, in their order."""
        for record in records:
            self.take(record)

    def close(self) -> None:
        """Close all; a second call does nothing."""
        for exporter in self.active:
            self._try(exporter, exporter.close)
        self._active.clear()

    def _try(self, exporter: Exporter, action: Callable[[], None]) -> None:
        # Whatever a logger raises, the run is worth more than its log.
        try:
            action()
        except Exception as error:
            self._active.remove(exporter)
            also = _close_failed(exporter)
            warnings.warn(
                f"{type(exporter).__name__} failed and gets no more records ({type(error).__name__}: {error}){also}; "
                "training goes on",
                RuntimeWarning,
                stacklevel=3,
            )


def check_exporters(what: str, exporters: Iterable[object]) -> None:
    """Refuse what is no exporter.

    Args:
        what: name of the argument that they came by.
        exporters: that were given.

    Raises:
        TypeError: one of them has no ``take`` or no ``close``.
    """
    for exporter in exporters:
        if not isinstance(exporter, Exporter):
            raise TypeError(
                f"{what}: got {exporter!r} of type {type(exporter).__name__}: expected objects with take(record) and "
                "close(), such as those of mixprec.monitor.export"
            )


def _close_failed(exporter: Exporter) -> str:
    """Let go of what it holds; say what that raises."""
    try:
        exporter.close()
    except Exception as error:
        return f", nor could it be closed ({type(error).__name__}: {error})"
    return ""
