"""When the next checkpoint is due: by steps, by time, or by whichever comes first."""

from __future__ import annotations

import time
from collections.abc import Callable


class Due:
    """Says after each applied step whether a checkpoint is due.

    Args:
        every: applied steps from one to the next; ``None``: none by steps.
        minutes: wall time from one to the next [min]; ``None``: none by time.
        clock: seconds that only grow.

    Example:
        >>> now = [0.0]
        >>> due = Due(every=10, minutes=5.0, clock=lambda: now[0])
        >>> due.after(9), due.after(10)
        (False, True)
        >>> now[0] = 301.0
        >>> due.after(11)
        True
        >>> due.saved()
        >>> due.after(12)
        False
    """

    def __init__(
        self, *, every: int | None, minutes: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._every, self._seconds, self._clock = every, None if minutes is None else 60 * minutes, clock
        self._last = clock()

    def after(self, applied: int) -> bool:
        """Whether one is due after so many applied steps."""
        if self._every is not None and applied % self._every == 0:
            return True
        return self._seconds is not None and self._clock() - self._last >= self._seconds

    def saved(self) -> None:
        """One was saved, or could not be: time counts from now."""
        self._last = self._clock()
