"""The recipes that ``--recipes`` names, and what is wrong with naming them so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ._expand_recipes import expand_recipes

if TYPE_CHECKING:
    from mixprec.specs import Recipe


def asked_recipes(
    names: str | None, resume: Path | None, *, sweeps: tuple[str, ...] = (), baseline: str = ""
) -> tuple[Recipe, ...]:
    """Read comma-separated names and paths; those of the run that is resumed come first.

    Args:
        names: what ``--recipes`` got.
        resume: the folder of the run that is resumed.
        sweeps: what ``--sweep`` got: the recipes that ``names`` gives are expanded by it.
        baseline: what ``--baseline`` got; the baseline is left as it is.

    Raises:
        ValueError: an empty name; two recipes of one name, or one that is not what the folder was run with.
        OSError: a file that cannot be read.
    """
    from mixprec.compare import recorded_recipes

    asked = _by_name(names) if names is not None else {}
    if sweeps:
        given = [recipe for _, recipe in asked.values()]
        swept = expand_recipes(
            given, sweeps, baseline or ("" if resume is not None else given[0].name if given else "")
        )
        asked = {recipe.name: (f"--sweep, {recipe.name}", recipe) for recipe in swept}
    if resume is None:
        return tuple(asked[name][1] for name in asked)
    before = recorded_recipes(resume)
    for recipe in before:
        source, now = asked.pop(recipe.name, ("", recipe))
        if now != recipe:
            raise ValueError(
                f"recipe '{recipe.name}' in {resume} differs from {source}: what was trained there under this name "
                f"stays; to add the changed one, {_rename(source)}"
            )
    return before + tuple(recipe for _, recipe in asked.values())


def _by_name(names: str) -> dict[str, tuple[str, Recipe]]:
    """Each recipe under its own name, with the word that named it."""
    from mixprec.specs import load_recipe

    found: dict[str, tuple[str, Recipe]] = {}
    for source in map(str.strip, names.split(",")):
        if not source:
            raise ValueError(
                f"--recipes '{names}' has an empty name: expected names or paths, with a comma between two"
            )
        recipe = load_recipe(source)
        if recipe.name in found:
            other = found[recipe.name][0]
            if other == source:
                raise ValueError(f"recipe {source} is named more than once: name each once")
            file = source if source != recipe.name else other
            raise ValueError(
                f"'{other}' and '{source}' are both recipe '{recipe.name}', and cannot be told apart: {_rename(file)}"
            )
        found[recipe.name] = (source, recipe)
    return found


def _rename(source: str) -> str:
    from mixprec.specs import recipe_names

    if source in recipe_names():
        return f'`mixprec recipes {source} > mine.toml`, change `name = "{source}"` in mine.toml, and name that file'
    return f'change `name = "..."` in {source}'
