"""The recipes that ``--sweep`` makes of those that were named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixprec.specs import Recipe

_EXAMPLE = "wgrad.grad_output.rounding=nearest,stochastic"


def expand_recipes(recipes: Sequence[Recipe], sweeps: Sequence[str], baseline: str) -> tuple[Recipe, ...]:
    """Put each recipe's variants in its place, one for each combination of the values of all sweeps that it has.

    A sweep that names no recipe is of all that have its operand, but for the baseline: what others are compared to
    stays as it is, unless it is alone or named.

    Args:
        recipes: that were named.
        sweeps: ``PATH=VALUE,VALUE`` or ``RECIPE:PATH=VALUE,VALUE`` each.
        baseline: the name that gaps are taken to; empty where it is none of these.

    Raises:
        ValueError: a sweep that cannot be read, of a recipe that was not named, or that fits none.

    Example:
        >>> from mixprec.specs import recipe
        >>> found = expand_recipes([recipe("fp32"), recipe("mxfp8")], ["fprop.input.rule=floor,ceil"], "fp32")
        >>> [one.name for one in found]
        ['fp32', 'mxfp8[fprop.input.rule=floor]', 'mxfp8[fprop.input.rule=ceil]']
    """
    from mixprec.formats import unknown_name
    from mixprec.specs import NoCastError, sweep_recipe

    free = [recipe.name for recipe in recipes if recipe.name != baseline or len(recipes) == 1]
    values: dict[str, dict[str, list[str]]] = {recipe.name: {} for recipe in recipes}
    for sweep in sweeps:
        only, path, choices = _parse(sweep)
        if only and only not in values:
            raise unknown_name(f"recipe in --sweep {sweep}:", only, values)
        refused: list[NoCastError] = []
        for recipe in recipes:
            if recipe.name not in ([only] if only else free):
                continue
            try:
                sweep_recipe(recipe, {path: choices})
            except NoCastError as error:
                refused.append(error)
                continue
            if path in values[recipe.name]:
                raise ValueError(f"--sweep names {path} twice for recipe '{recipe.name}': give all its values at once")
            values[recipe.name][path] = choices
        if refused and not any(path in own for own in values.values()):
            raise refused[0]
    return tuple(
        variant
        for recipe in recipes
        for variant in (sweep_recipe(recipe, values[recipe.name]) if values[recipe.name] else (recipe,))
    )


def _parse(sweep: str) -> tuple[str, str, list[str]]:
    """Recipe (or nothing), path and values."""
    where, equals, right = sweep.partition("=")
    only, _, path = where.rpartition(":")
    choices = [choice.strip() for choice in right.split(",")]
    if not equals or not path.strip() or not all(choices):
        raise ValueError(f"--sweep '{sweep}' cannot be read: expected PATH=VALUE,VALUE, such as {_EXAMPLE}")
    if len(set(choices)) < len(choices):
        raise ValueError(f"--sweep '{sweep}' has a value twice: name each once")
    return only.strip(), path.strip(), choices
