"""A curve that stays small however long it gets, and its picture in characters."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

#: A character of Braille is two dots wide and four high; these are their bits, by column from the top.
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BRAILLE = 0x2800


class Curve:
    """Values over steps; once there are too many, every second one goes, and half as many are taken in from then on.

    Args:
        points: that are kept at most.

    Example:
        >>> curve = Curve(points=4)
        >>> for step in range(10):
        ...     curve.add(step, float(step))
        >>> curve.values
        [(0, 0.0), (4, 4.0), (8, 8.0)]
    """

    def __init__(self, points: int = 2048) -> None:
        self.values: list[tuple[int, float]] = []
        self._points, self._stride, self._seen = points, 1, 0

    def add(self, step: int, value: float) -> None:
        """Take in one value."""
        if self._seen % self._stride == 0:
            self.values.append((step, value))
            if len(self.values) > self._points:
                self.values = self.values[::2]
                self._stride *= 2
        self._seen += 1

    def forget_from(self, step: int) -> None:
        """Drop the values from a step on: the run was resumed there."""
        self.values = [(at, value) for at, value in self.values if at < step]
        self._seen = len(self.values) * self._stride


def draw(values: list[tuple[int, float]], width: int, height: int) -> tuple[list[str], float, float] | None:
    """A curve as lines of Braille; medians where several steps share a column of dots.

    The first twentieth of a curve that falls far does not set the range, so that what follows is seen.

    Args:
        values: step and value; those that are not finite are left out.
        width: characters.
        height: lines.

    Returns:
        The lines, and the values at the bottom and at the top; ``None`` where no value is finite.

    Example:
        >>> draw([(0, 0.0), (1, 1.0), (2, 2.0), (3, 3.0)], width=2, height=1)
        (['⡠⠊'], 0.0, 3.0)
    """
    finite = [(step, value) for step, value in values if math.isfinite(value)]
    if not finite:
        return None
    columns = _columns(finite, 2 * width)
    low, high = _range(finite)
    rows = 4 * height - 1
    levels = {
        column: round((min(max(value, low), high) - low) / (high - low) * rows) if high > low else 0
        for column, value in columns.items()
    }
    cells = [[0] * width for _ in range(height)]
    before: int | None = None
    for column, level in sorted(levels.items()):
        # A steep piece is filled upwards and downwards from where the column before it was.
        start = level if before is None or abs(before - level) < 2 else before + (1 if level > before else -1)
        for y in range(min(start, level), max(start, level) + 1):
            row, dot = divmod(rows - y, 4)
            cells[row][column // 2] |= _DOTS[column % 2][dot]
        before = level
    return ["".join(chr(_BRAILLE + bits) for bits in line) for line in cells], low, high


def _columns(values: list[tuple[int, float]], count: int) -> dict[int, float]:
    first, last = values[0][0], values[-1][0]
    by_column: dict[int, list[float]] = {}
    for step, value in values:
        by_column.setdefault((step - first) * (count - 1) // max(1, last - first), []).append(value)
    known = {column: median(of) for column, of in by_column.items()}
    # Columns between two values lie on the straight line between them.
    for left, right in pairwise(sorted(known)):
        slope = (known[right] - known[left]) / (right - left)
        known |= {column: known[left] + slope * (column - left) for column in range(left + 1, right)}
    return known


def _range(values: list[tuple[int, float]]) -> tuple[float, float]:
    settled = sorted(value for _, value in values[len(values) // 20 :])
    return settled[0], settled[-1]
