"""A curve's recent past: its median, and how far values usually lie from it."""

from __future__ import annotations

from collections import deque
from statistics import median

#: The MAD of a normal distribution times this is its standard deviation.
MAD_TO_DEVIATION = 1.4826


class Past:
    """The last values of a curve.

    Args:
        length: how many are kept.

    Example:
        >>> past = Past(5)
        >>> for value in (1.0, 2.0, 3.0, 4.0, 100.0):
        ...     past.add(value)
        >>> past.middle(), past.deviation()
        (3.0, 1.4826)
    """

    def __init__(self, length: int) -> None:
        self.values: deque[float] = deque(maxlen=length)

    @property
    def is_full(self) -> bool:
        """Whether as many values are there as are kept."""
        return len(self.values) == self.values.maxlen

    def add(self, value: float) -> None:
        """Remember a value; the oldest goes."""
        self.values.append(value)

    def middle(self) -> float:
        """The median."""
        return median(self.values)

    def deviation(self) -> float:
        """The standard deviation as the median distance from the median tells it: outliers do not raise it."""
        middle = self.middle()
        return MAD_TO_DEVIATION * median(abs(value - middle) for value in self.values)
