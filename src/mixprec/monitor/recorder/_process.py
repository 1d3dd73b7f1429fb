"""What a process can end by that no loop is told of: signals, and exceptions that nobody catches."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import weakref
from types import FrameType, TracebackType
from typing import Any, Protocol


class Listener(Protocol):
    """Who is told."""

    def signalled(self, name: str) -> None:
        """A signal has come."""
        ...

    def crashed(self, error: BaseException) -> None:
        """An exception has left the program."""
        ...


class ProcessWatch:
    """Tells a listener of SIGUSR1, SIGTERM and uncaught exceptions; what was set up for them before is done after it.

    SIGUSR1 asks for a dump: alone it would end the process, so where nothing else was set up the process goes on.
    After SIGTERM whatever was set up before follows; by default the process ends by it. Signals can be watched from
    the main thread alone, and not where code that is none of Python's handles them; ``notes`` says so. A forked
    process tells nobody.

    Args:
        listener: held weakly.

    Attributes:
        notes: what is not watched, and why.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = weakref.ref(listener)
        self._pid = os.getpid()
        self._before: dict[signal.Signals, Any] = {}
        self.notes: list[str] = []
        self._install()

    def close(self) -> None:
        """Give everything back, but what somebody else has put on top since: that goes on to what was before."""
        if os.getpid() != self._pid:
            return
        for number, before in self._before.items():
            if signal.getsignal(number) == self._on_signal and threading.current_thread() is threading.main_thread():
                signal.signal(number, before)
        if sys.excepthook == self._on_exception:
            sys.excepthook = self._hook_before
        atexit.unregister(self._on_exit)
        self._listener = _nobody

    def _install(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGUSR1, signal.SIGTERM):
                before = signal.getsignal(number)
                if before is None:
                    self.notes.append(f"{number.name} is not watched: something other than Python handles it")
                    continue
                self._before[number] = before
                signal.signal(number, self._on_signal)
        else:
            self.notes.append("signals are not watched: only the main thread can")
        self._hook_before = sys.excepthook
        sys.excepthook = self._on_exception
        self._last_before = _last_error()
        atexit.register(self._on_exit)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        listener = self._listener() if os.getpid() == self._pid else None
        which = signal.Signals(number)
        if listener is not None:
            listener.signalled(which.name)
        before = self._before.get(which)
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL and (which != signal.SIGUSR1 or listener is None):
            signal.signal(which, signal.SIG_DFL)
            os.kill(os.getpid(), which)

    def _on_exception(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None, /) -> None:
        self._tell(error)
        self._hook_before(kind, error, trace)

    def _on_exit(self) -> None:
        """An exception whose hook somebody else has taken is left where the interpreter puts it."""
        error = _last_error()
        if error is not None and error is not self._last_before:
            self._tell(error)

    def _tell(self, error: BaseException) -> None:
        listener = self._listener() if os.getpid() == self._pid else None
        if listener is not None:
            listener.crashed(error)


def _nobody() -> None:
    return None


def _last_error() -> BaseException | None:
    """The exception that the interpreter printed last."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
