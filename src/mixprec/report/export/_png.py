"""Figures as PNG, drawn by matplotlib in the page's colours."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE = Path(__file__).parents[1] / "templates" / "page.css"
_WIDTH, _DOTS = 8.0, 200
#: Width and opacity of each kind of line.
_LINES: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"raw": (0.5, 0.15), "seed": (0.7, 0.5), "mean": (1.8, 1.0), "rate": (1.8, 1.0)}
)

Trace = Mapping[str, Any]
Colors = Sequence[str]


def chart_png(chart: Mapping[str, Any], title: str) -> bytes:
    """A figure of the page as PNG: 8 inches wide, 200 dots per inch, on white.

    Args:
        chart: as the page holds it.
        title: what stands over it.

    Raises:
        ValueError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ValueError("figures need matplotlib, which is not installed: pip install 'mixprec[figures]'") from None
    height = chart["height"] / 100 + 0.6 if "height" in chart else 4.2
    figure = Figure(figsize=(_WIDTH, max(2.2, height)), layout="constrained")
    axes = figure.subplots()
    series, formats = _colors("series"), _colors("format")
    if chart.get("bars"):
        _bars(axes, chart, series, formats)
    else:
        for trace in chart["traces"]:
            _DRAW[trace["meta"]["kind"]](axes, trace, series[trace["meta"]["series"] % len(series)])
        _axes(axes, chart)
    axes.set_title(_plain(title), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left", bbox_to_anchor=(0, -0.12))
    file = io.BytesIO()
    with warnings.catch_warnings():
        # A letter that the font lacks (of a recipe's name, say) is drawn as a box; the CSV has it.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, dpi=_DOTS, metadata={"Software": None})
    return file.getvalue()


def _colors(kind: str) -> list[str]:
    """The page's colours on a light ground, in their order."""
    light = _STYLE.read_text(encoding="utf-8").partition("}")[0]
    return re.findall(rf"--{kind}-\d: (#\w+);", light)


def _plain(text: str) -> str:
    """A name as it is: matplotlib reads formulas between dollars."""
    return text.replace("$", r"\$")


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _line(axes: Axes, trace: Trace, color: str) -> None:
    kind = trace["meta"]["kind"]
    width, opacity = _LINES[kind]
    # A label that begins so is in no legend.
    label = _plain(trace["name"]) if kind in ("mean", "rate") else "_line"
    axes.plot(trace["x"], _numbers(trace["y"]), color=color, linewidth=width, alpha=opacity, label=label)


def _band(axes: Axes, trace: Trace, color: str) -> None:
    half = len(trace["x"]) // 2
    high, low = trace["y"][:half], trace["y"][: half - 1 : -1]
    axes.fill_between(trace["x"][:half], _numbers(low), _numbers(high), color=color, alpha=0.16, linewidth=0)


def _circles(axes: Axes, trace: Trace, color: str) -> None:
    axes.plot(trace["x"], _numbers(trace["y"]), "o", markersize=6, markerfacecolor="none", markeredgecolor=color)


def _crosses(axes: Axes, trace: Trace, color: str) -> None:
    axes.plot(trace["x"], _numbers(trace["y"]), "x", markersize=5, color=color)


def _triangles(axes: Axes, trace: Trace, color: str) -> None:
    axes.plot(trace["x"], _numbers(trace["y"]), "v", markersize=7, markeredgecolor="white", color=color)


def _ticks(axes: Axes, trace: Trace, color: str) -> None:
    axes.plot(trace["x"], [_plain(name) for name in trace["y"]], "|", markersize=9, color=color, alpha=0.6)


def _interval(axes: Axes, trace: Trace, color: str) -> None:
    reach = trace.get("error_x")
    ends = None if reach is None else [reach["arrayminus"], reach["array"]]
    names = [_plain(name) for name in trace["y"]]
    axes.errorbar(trace["x"], names, xerr=ends, fmt="o", color=color, capsize=4, linewidth=2)


_DRAW: Mapping[str, Callable[[Axes, Trace, str], None]] = MappingProxyType(
    {
        "band": _band,
        "raw": _line,
        "seed": _line,
        "mean": _line,
        "rate": _line,
        "evaluation": _circles,
        "skipped": _crosses,
        "incident": _triangles,
        "pair": _ticks,
        "interval": _interval,
        "time": _interval,
    }
)


def _axes(axes: Axes, chart: Mapping[str, Any]) -> None:
    if chart.get("intervals"):
        axes.invert_yaxis()
        axes.margins(y=0.2)
        if chart.get("zero"):
            axes.axvline(0, color="#5b6470", linewidth=1)
        else:
            axes.set_xlim(left=0)
            axes.set_xlabel(chart["unit"])
        return
    axes.set_xlim(*chart["steps"])
    axes.set_xlabel("step")
    if chart.get("unit"):
        axes.set_ylabel(f"{chart['unit']} per second")
    if chart["range"] is not None:
        axes.set_ylim(*chart["range"])
    if chart["zero"]:
        axes.axhline(0, color="#5b6470", linewidth=1)


def _bars(axes: Axes, chart: Mapping[str, Any], series: Colors, formats: Colors) -> None:
    """Stacked by kind, or side by side by recipe."""
    traces = chart["traces"]
    names = list(dict.fromkeys(name for trace in traces for name in trace["y"]))
    ends = dict.fromkeys(names, 0.0)
    height = 0.8 / len(traces) if chart.get("grouped") else 0.55
    for i, trace in enumerate(traces):
        palette = series if trace["meta"]["kind"] == "estimate" else formats
        widths = dict(zip(trace["y"], (value or 0.0 for value in trace["x"]), strict=True))
        shift = (i - (len(traces) - 1) / 2) * height if chart.get("grouped") else 0.0
        axes.barh(
            [place + shift for place in range(len(names))],
            [widths.get(name, 0.0) for name in names],
            left=None if chart.get("grouped") else [ends[name] for name in names],
            height=height,
            color=palette[trace["meta"]["series"] % len(palette)],
            label=_plain(trace["name"]),
        )
        ends = {name: end + widths.get(name, 0.0) for name, end in ends.items()}
    axes.set_yticks(range(len(names)), [_plain(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("over the baseline" if chart.get("grouped") else "bytes")
    if chart.get("grouped"):
        axes.axvline(1, color="#5b6470", linewidth=1)
