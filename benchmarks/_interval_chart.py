"""A chart of means with intervals and single values, as SVG: one panel above another, each with its own scale."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_LEFT, _WIDTH, _ROW, _HEAD, _FOOT = 150, 720, 26, 34, 34
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.title{font-weight:600}.axis{stroke:#8c959f;stroke-width:1}"
    ".grid{stroke:#d0d7de;stroke-width:1}.mean{fill:#0969da}.interval{stroke:#0969da;stroke-width:2}"
    ".one{fill:none;stroke:#57606a;stroke-width:1}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#30363d}.mean{fill:#58a6ff}"
    ".interval{stroke:#58a6ff}.one{stroke:#8b949e}}"
)


class Bar(NamedTuple):
    """A row of a panel: its mean, the ends of its interval, and what it is the mean of."""

    name: str
    mean: float
    low: float
    high: float
    values: tuple[float, ...]


def interval_chart(panels: Mapping[str, Sequence[Bar]], unit: str) -> str:
    """Draw the panels; the scale of each begins at 0, or at what lies below."""
    parts: list[str] = []
    top = 8
    for title, bars in panels.items():
        parts += _panel(title, bars, top)
        top += _HEAD + _ROW * len(bars) + _FOOT
    parts.append(f'<text x="{_LEFT + (_WIDTH - _LEFT) / 2:.0f}" y="{top + 10}" text-anchor="middle">{unit}</text>')
    height = top + 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 20} {height}" role="img" '
        f'aria-label="{html.escape(unit)}"><style>{_STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _panel(title: str, bars: Sequence[Bar], top: int) -> list[str]:
    least = min(0.0, *(min(bar.low, *bar.values) for bar in bars))
    most = max(max(bar.high, *bar.values) for bar in bars)
    span = (most - least) or 1.0

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT) * (value - least) / span

    bottom = top + _HEAD + _ROW * len(bars)
    parts = [f'<text class="title" x="{_LEFT}" y="{top + 18}">{html.escape(title)}</text>']
    for step in range(5):
        value = least + span * step / 4
        parts.append(
            f'<line class="grid" x1="{x(value):.1f}" x2="{x(value):.1f}" y1="{top + _HEAD - 6}" y2="{bottom}"/>'
        )
        parts.append(f'<text x="{x(value):.1f}" y="{bottom + 16}" text-anchor="middle">{value:.3g}</text>')
    for row, bar in enumerate(bars):
        y = top + _HEAD + _ROW * row + _ROW / 2 - 6
        parts.append(f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{html.escape(bar.name)}</text>')
        parts += [f'<circle class="one" cx="{x(value):.1f}" cy="{y:.1f}" r="3"/>' for value in bar.values]
        parts.append(f'<line class="interval" x1="{x(bar.low):.1f}" x2="{x(bar.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<circle class="mean" cx="{x(bar.mean):.1f}" cy="{y:.1f}" r="4.5"/>')
    return [*parts, f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH}" y1="{bottom}" y2="{bottom}"/>']
