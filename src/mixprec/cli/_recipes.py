"""``mixprec recipes``: the recipes by name, and what each says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._print import print_table

if TYPE_CHECKING:
    from mixprec.specs import Recipe


def command(name: str | None = None, /) -> int:
    """List the recipes, or print one as TOML.

    The TOML of a recipe is a file to start from: change it, then give its path wherever a recipe's name is taken.

    For example: `mixprec recipes`, or `mixprec recipes mxfp8 > mine.toml` and then
    `mixprec compare gpt --recipes fp32,mine.toml`

    Args:
        name: a recipe, or the path of a TOML file.
    """
    from mixprec.specs import load_recipe, recipe, recipe_names

    if name is not None:
        print(load_recipe(name).to_toml(), end="")
        return 0
    rows: list[list[str]] = []
    for known in recipe_names():
        made = recipe(known)
        rows.append([known, made.compute_dtype, _casts(made), made.loss_scale.kind, made.weights])
    print_table(("recipe", "compute dtype", "linear layers", "loss scale", "weights"), rows, title="recipes")
    print("`mixprec recipes NAME` prints one as TOML.")
    return 0


def _casts(recipe: Recipe) -> str:
    """The distinct casts of the recipe's rules, or that its layers stay in the compute dtype."""
    from mixprec.specs import OPERANDS

    precisions = [rule.precision for rule in recipe.rules if rule.precision is not None]
    casts = [str(cast) for p in precisions for operand in OPERANDS if (cast := getattr(p, operand)) is not None]
    return ", ".join(dict.fromkeys(casts)) or "the compute dtype"
