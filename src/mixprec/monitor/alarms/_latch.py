"""One event is told once: a condition that was told is told again only after it has been gone for a while."""

from __future__ import annotations


class Latches:
    """Which conditions are on.

    Args:
        rearm: how many times in a row a condition must be seen gone before it may be told again.

    Example:
        >>> latches = Latches(rearm=2)
        >>> [latches.tells("spike", on) for on in (True, True, False, True, False, False, True)]
        [True, False, False, False, False, False, True]
    """

    def __init__(self, rearm: int) -> None:
        self._rearm = rearm
        self._gone: dict[str, int] = {}  # of conditions that are on: how often in a row they were seen gone

    def tells(self, key: str, is_on: bool) -> bool:
        """Whether a condition is to be told now."""
        if is_on:
            is_new = key not in self._gone
            self._gone[key] = 0
            return is_new
        if key in self._gone:
            self._gone[key] += 1
            if self._gone[key] >= self._rearm:
                del self._gone[key]
        return False

    def state(self) -> dict[str, int]:
        """What it remembers."""
        return dict(self._gone)

    def load(self, state: dict[str, int]) -> None:
        """Continue from a ``state()``."""
        self._gone = {str(key): int(n) for key, n in state.items()}
