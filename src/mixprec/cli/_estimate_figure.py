"""A figure of an estimate: memory by kind, and a step's time by what bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_KALEIDO = "{}: a PNG needs the package kaleido: python -m pip install kaleido, or name a file that ends in .html"


def write_figure(plain: dict[str, Any], path: Path) -> None:
    """Write stacked bars, one for each recipe, as a page that needs no network, or as an image.

    Args:
        plain: what ``--json`` prints.
        path: ends in ``.html`` or ``.png``.

    Raises:
        ValueError: an image without the package that makes one.
    """
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    recipes = plain["recipes"]
    names = [one["recipe"] for one in recipes]
    has_time = any(one["seconds"] for one in recipes)
    titles = ("memory of a device [bytes]", "time of a step [s]") if has_time else ("memory of a device [bytes]",)
    figure: Any = make_subplots(rows=1, cols=len(titles), subplot_titles=titles)
    for column, key in enumerate(("memory", "bounds")[: len(titles)], 1):
        kinds = dict.fromkeys(kind for one in recipes for kind, n in one[key].items() if n)
        for kind in kinds:
            values = [one[key].get(kind, 0) for one in recipes]
            figure.add_trace(go.Bar(name=kind, x=names, y=values, legendgroup=key), row=1, col=column)
    told = "" if plain["validated"] else " (not validated)"
    figure.update_layout(barmode="stack", title=f"{plain['job']} on {plain['hardware'] or 'this machine'}{told}")
    if path.suffix == ".html":
        figure.write_html(path, include_plotlyjs=True)
        return
    try:
        figure.write_image(path)
    except (ValueError, ImportError, RuntimeError) as error:
        raise ValueError(_KALEIDO.format(path)) from error
