"""Ctrl-C that is not lost, whoever swallows the exception that it raises."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interrupt:
    """Inside of the ``with`` block a SIGINT that has raised ``KeyboardInterrupt`` is remembered.

    Python runs a signal's handler between any two of its instructions, and drops what a handler raises inside of a
    finalizer (``__del__``, a weak reference's callback, of which a step that is measured has thousands). ``check``
    raises it again then. Signals are handled on the main thread alone; on others nothing is remembered.

    Example:
        >>> with Interrupt() as interrupt:
        ...     try:
        ...         signal.raise_signal(signal.SIGINT)
        ...     except KeyboardInterrupt:
        ...         pass  # as a finalizer would
        ...     try:
        ...         interrupt.check()
        ...     except KeyboardInterrupt:
        ...         print("it came")
        it came
    """

    def __init__(self) -> None:
        self._has_come = False
        self._before: object = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if callable(self._before):
                signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What somebody else has put on top since stays, and goes on to what was before.
        if callable(self._before) and signal.getsignal(signal.SIGINT) == self._on_signal:
            signal.signal(signal.SIGINT, self._before)

    def check(self) -> None:
        """Raise what has been swallowed.

        Raises:
            KeyboardInterrupt: a SIGINT came inside of the block.
        """
        if self._has_come:
            raise KeyboardInterrupt

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if callable(self._before):
            try:
                self._before(number, frame)
            except KeyboardInterrupt:
                self._has_come = True
                raise
