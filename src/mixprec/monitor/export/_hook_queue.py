"""Incidents on their way to a hook of the user's, which may hang or fail: training waits for none."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Callable

from ...records import IncidentRecord, IncidentTally, Record, count

#: Seconds that a hook which was told to end has for it.
_GRACE = 1.0


class HookQueue:
    """Hands incidents to a hook, one after another, in a thread of its own that the first one starts.

    A failure is told once as a ``RuntimeWarning``, by whoever calls next (``put``, ``tell`` or ``close``); the hook is
    tried again with the next incident. So are incidents that it never got.

    Args:
        name: of the hook, as it is told.
        send: hands one incident over, within its time-out; raises where that fails.
        abort: ends a ``send`` that is under way, where that can be done; called from another thread.
        wait: seconds that ``close`` waits for what is under way and waiting.
        places: incidents that wait at most; further ones are left out, and told.

    Example:
        >>> heard = []
        >>> queue = HookQueue("a list", heard.append, abort=lambda: None, wait=5.0)
        >>> queue.put(IncidentRecord(
        ...     recipe="fp8", seed=0, number=1, step=3, trigger="loss spike", site="", evidence={},
        ...     rung="tell", action="told",
        ... ))
        >>> queue.close()
        >>> [incident.number for incident in heard]
        [1]
    """

    def __init__(
        self,
        name: str,
        send: Callable[[IncidentRecord], None],
        *,
        abort: Callable[[], None],
        wait: float,
        places: int = 64,
    ) -> None:
        self._name, self._send, self._abort, self._wait, self._places = name, send, abort, wait, places
        self._incidents = IncidentTally()
        self._waiting, self._change = deque[IncidentRecord](), threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing, self._left_out = False, 0
        self._failure, self._failures, self._has_told = "", 0, False

    def take(self, record: Record) -> None:
        """Hand over news of an incident, its number or its outcome; other records are passed over."""
        self.tell()
        if isinstance(record, IncidentRecord) and self._incidents.take(record).is_news:
            self.put(record)

    def put(self, incident: IncidentRecord) -> None:
        """Let one wait its turn; returns at once.

        Raises:
            ValueError: the queue is closed.
        """
        with self._change:
            if self._closing:
                raise ValueError(f"{self._name} is closed: incident {incident.number} comes too late")
            if len(self._waiting) >= self._places:
                self._left_out += 1
                return
            self._waiting.append(incident)
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def tell(self) -> None:
        """Warn of the first failure, once."""
        if self._failure and not self._has_told:
            self._has_told = True
            warnings.warn(
                f"{self._name} failed at {self._failure}; the next incidents are tried, and training goes on",
                RuntimeWarning,
                stacklevel=3,
            )

    def close(self) -> None:
        """Let what waits be handed over, as far as the time goes; tell what was not. A second call does nothing."""
        with self._change:
            if self._closing:
                return
            self._closing = True
            self._change.notify()
        if self._thread is not None:
            self._thread.join(self._wait)
            if self._thread.is_alive():
                self._give_up(self._thread)
        self.tell()
        self._tell_left_out()

    def _give_up(self, thread: threading.Thread) -> None:
        with self._change:
            self._left_out += len(self._waiting)
            self._waiting.clear()
        self._abort()
        thread.join(_GRACE)
        self._left_out += thread.is_alive()

    def _tell_left_out(self) -> None:
        parts = [f"{count(self._failures, 'call')} failed"] if self._failures > 1 else []
        if self._left_out:
            parts.append(f"{count(self._left_out, 'record')} did not reach it, for it was slower than they came")
        if parts:
            told = f"{self._name}: {', and '.join(parts)}; the run folder has every incident"
            warnings.warn(told, RuntimeWarning, stacklevel=3)

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                incident = self._waiting.popleft()
            # Whatever a user's hook does, the run is worth more.
            try:
                self._send(incident)
            except Exception as error:
                self._failure = self._failure or f"incident {incident.number} ({error or type(error).__name__})"
                self._failures += 1
