"""Where each tensor stands on the map: repeated blocks side by side, so that a pattern over depth is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Order of roles in a row of the map; others follow as they come.
ROLES = ("input", "weight", "output", "grad_output", "gradient")


def site_map(tensors: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Lay tensors out in tables.

    ``blocks.3.mlp.fc2`` stands in the table ``blocks.*``, in the row ``mlp.fc2`` of its role and the column 3; sites
    without a number stand in a last table, with a column for each role. The gradient of a parameter stands with its
    module.

    Args:
        tensors: site and role of each.

    Returns:
        Tables as JSON can hold them: ``name``, ``columns``, and ``rows`` of ``label``, ``role`` and ``cells``: the
        tensor's index, or ``None``.

    Example:
        >>> table, = site_map([("blocks.0.fc", "input"), ("blocks.1.fc", "input")])
        >>> table["name"], table["columns"], table["rows"]
        ('blocks.*', ['0', '1'], [{'label': 'fc', 'role': 'input', 'cells': [0, 1]}])
    """
    tables: dict[str, dict[tuple[str, str], dict[int, int]]] = {}
    singles: dict[str, dict[str, int]] = {}
    for index, (site, role) in enumerate(map(_of_module, tensors)):
        table, label, number = _place(site)
        if number is None:
            singles.setdefault(site, {})[role] = index
        else:
            tables.setdefault(table, {}).setdefault((label, role), {})[number] = index
    laid_out = [_numbered(name, rows) for name, rows in tables.items()]
    return [*laid_out, _by_role(singles)] if singles else laid_out


def _of_module(tensor: tuple[str, str]) -> tuple[str, str]:
    """A parameter's gradient stands with the tensors of its module."""
    site, role = tensor
    module, _, parameter = site.rpartition(".")
    return (module, f"{parameter} gradient") if role == "gradient" and module else tensor


def _place(site: str) -> tuple[str, str, int | None]:
    """Table, row and column of a site; no column for a site without a number."""
    parts = site.split(".")
    for i, part in enumerate(parts):
        if part.isdecimal():
            return ".".join((*parts[:i], "*")), ".".join(parts[i + 1 :]), int(part)
    return "", site, None


def _numbered(name: str, rows: dict[tuple[str, str], dict[int, int]]) -> dict[str, Any]:
    columns = sorted({number for cells in rows.values() for number in cells})
    labels = list(dict.fromkeys(label for label, _ in rows))
    ordered = sorted(rows, key=lambda row: (labels.index(row[0]), _rank(row[1])))
    return {
        "name": name,
        "columns": [str(number) for number in columns],
        "rows": [
            {"label": label, "role": role, "cells": [rows[label, role].get(number) for number in columns]}
            for label, role in ordered
        ],
    }


def _by_role(singles: dict[str, dict[str, int]]) -> dict[str, Any]:
    roles = sorted({role for cells in singles.values() for role in cells}, key=_rank)
    return {
        "name": "",
        "columns": roles,
        "rows": [
            {"label": site, "role": "", "cells": [cells.get(role) for role in roles]} for site, cells in singles.items()
        ],
    }


def _rank(role: str) -> tuple[int, str]:
    return (ROLES.index(role) if role in ROLES else len(ROLES), role)
