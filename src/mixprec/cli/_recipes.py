"""``mixprec recipes``: the recipes by name, what each says, and where it comes from."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._print import print_table

if TYPE_CHECKING:
    from mixprec.specs import Recipe, RecipeDescription

#: Lines of text are no longer, however wide the terminal is.
_WIDEST = 100


def command(name: str | None = None, /, *, about: Annotated[bool, Parameter(negative=())] = False) -> int:
    """List the recipes, or print one as TOML, or tell where it comes from.

    The TOML of a recipe is a file to start from: change it, its `name` too, then give its path wherever a recipe's
    name is taken.

    For example: `mixprec recipes`, `mixprec recipes nvfp4 --about`, or `mixprec recipes mxfp8 > mine.toml` and then
    `mixprec compare gpt --recipes fp32,mine.toml`

    Args:
        name: a recipe, or the path of a TOML file.
        about: tell in words what the recipe is, what it keeps in bytes, which paper or library defines it and what
            was found there; of all recipes where none is named.
    """
    from mixprec.specs import load_recipe, recipe_names

    if about:
        _tell_about(name)
    elif name is not None:
        print(load_recipe(name).to_toml(), end="")
    else:
        _list(recipe_names())
    return 0


def _list(names: tuple[str, ...]) -> None:
    from mixprec.specs import describe_recipe, recipe

    rows: list[list[str]] = []
    for name in names:
        made = recipe(name)
        rows.append([name, made.compute_dtype, _casts(made), made.loss_scale.kind, made.weights])
        rows[-1].append(describe_recipe(name).reference)
    header = ("recipe", "compute dtype", "casts of layers", "loss scale", "weights", "source")
    print_table(header, rows, title="recipes")
    print("`mixprec recipes NAME` prints one as TOML, `mixprec recipes NAME --about` tells where it comes from.")


def _tell_about(name: str | None) -> None:
    from mixprec.specs import describe_recipe, recipe_names

    if name is not None and name not in recipe_names() and name.endswith(".toml"):
        raise ValueError(f"--about tells of named recipes, got the file '{name}': `mixprec recipes {name}` prints it")
    names = recipe_names() if name is None else (name,)
    print("\n\n".join(_about(describe_recipe(one)) for one in names))


def _about(described: RecipeDescription) -> str:
    """A paragraph and its labelled parts.

    Example:
        >>> from mixprec.specs import describe_recipe
        >>> print(_about(describe_recipe("fp32")))
        fp32: Everything in fp32: the baseline.
          bytes   4 per saved activation, 4 per weight.
          source  IEEE 754-2019, binary32.
          found   what every gap is taken to.
    """
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    parts = (("bytes", described.size), ("source", described.source), ("found", described.finding))
    lines = [textwrap.fill(f"{described.name}: {described.definition}", width)]
    lines += [
        textwrap.fill(text, width, initial_indent=f"  {label:<8}", subsequent_indent=" " * 10) for label, text in parts
    ]
    return "\n".join(lines)


def _casts(recipe: Recipe) -> str:
    """The distinct casts of the recipe's rules, those of most layers first; or that all stay in the compute dtype."""
    from mixprec.specs import OPERANDS

    precisions = [rule.precision for rule in reversed(recipe.all_rules) if rule.precision is not None]
    casts = [str(cast) for p in precisions for operand in OPERANDS if (cast := p.operand(operand)) is not None]
    return ", ".join(dict.fromkeys(casts)) or "the compute dtype"
