"""SIGINT and SIGTERM that let the step end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

_STOPS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Inside of the ``with`` block the first signal that stops a process is noted, and a second one ends it at once.

    Signals are handled on the main thread alone; on others nothing is noted. One that the process ignores (as under
    ``nohup``) stays ignored.

    Args:
        signalled: is given the first signal's name, inside of its handler.

    Attributes:
        came: the first signal, or ``None``.

    Example:
        >>> with StopSignals(print) as stop:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     stop.came.name
        SIGTERM
        'SIGTERM'
    """

    def __init__(self, signalled: Callable[[str], None]) -> None:
        self.came: signal.Signals | None = None
        self._signalled = signalled
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _STOPS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            # What somebody else has put on top since stays.
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.came is None:
            self.came = signal.Signals(number)
            self._signalled(self.came.name)
            return
        before = self._before[number]
        signal.signal(number, before)
        if callable(before):
            before(number, frame)  # Python's own for SIGINT raises KeyboardInterrupt
        else:
            signal.raise_signal(number)
