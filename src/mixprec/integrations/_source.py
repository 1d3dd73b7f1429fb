"""Parts of the Python files that are written: sets of layers with reasons, and what is told in comments."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

_WIDTH = 100


def docstring(*paragraphs: str) -> str:
    """A module's docstring of paragraphs."""
    text = "\n\n".join(textwrap.fill(part, _WIDTH, break_on_hyphens=False) for part in paragraphs if part)
    return f'"""{text.replace(chr(92), chr(92) * 2)}\n"""'


def layer_set(name: str, layers: Sequence[str], reasons: Mapping[str, str]) -> str:
    """An assignment of paths, with the reason of each above the first of those that share it."""
    lines = [f"{name} = frozenset(", "    {"]
    told = ""
    for layer in layers:
        reason = reasons.get(layer, "")
        if reason and reason != told:
            lines += comment(reason, indent="        ")
        told = reason
        lines.append(f'        "{layer}",')
    return "\n".join([*lines, "    }", ")"])


def comment(text: str, *, indent: str = "") -> list[str]:
    """Lines of comment."""
    return textwrap.wrap(
        " ".join(text.split()),
        _WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}# ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def told_of_wide(wide: Sequence[str], kept: Sequence[str], reasons: Mapping[str, str]) -> list[str]:
    """Comments on the sites that are left in the compute dtype."""
    lines: list[str] = []
    for head, sites in (
        ("Kept in the compute dtype, against the recipe, as asked:", kept),
        ("In the compute dtype:", wide),
    ):
        if sites:
            lines += ["#", f"# {head}"]
        for site in sites:
            reason = reasons.get(site, "")
            lines += comment(f"- {site}: {reason}" if reason else f"- {site}")
    return lines[1:] if lines else []
