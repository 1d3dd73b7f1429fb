"""Candidates from recipes."""

from __future__ import annotations

import os

from ...specs import Recipe, load_recipe
from .._candidate import KEEP, Candidate


def candidate_of(recipe: Recipe | str | os.PathLike[str]) -> Candidate:
    """Give what a recipe gives to most layers, as a candidate of its name.

    That is the precision of its last rule with casts: the rules before it are for the head and other exceptions, which
    a plan decides by itself.

    Args:
        recipe: a recipe, its name, or the path of its TOML file.

    Raises:
        OSError: a file that cannot be read.
        ValueError: an unknown name, a recipe without casts, or one that is called ``keep``.

    Example:
        >>> str(candidate_of("nvfp4").precision.fprop_weight)
        'nvfp4-2d'
    """
    made = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    if made.name == KEEP:
        raise ValueError(f"recipe '{made.name}' cannot be a candidate: that name leaves a layer as it is; change it")
    precision = next((rule.precision for rule in reversed(made.rules) if rule.precision is not None), None)
    if precision is None:
        raise ValueError(
            f"recipe '{made.name}' gives casts to no layer and so cannot be a candidate: expected one such as mxfp8; "
            "what layers have that keep the compute dtype is the base recipe's (--base)"
        )
    return Candidate(name=made.name, precision=precision)
