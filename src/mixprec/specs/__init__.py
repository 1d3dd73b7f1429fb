"""Casts, layer precisions, rules and recipes, and their TOML and one-line forms."""

from ._cast import Cast, ScaleRule, Signs
from ._delayed import Delayed
from ._granularity import Granularity
from ._layer import OPERANDS, LayerPrecision
from ._parse import parse_cast
from ._recipe import LossScale, Recipe, Rule
from ._recipes import RecipeOverrides, auto_recipe, load_recipe, recipe, recipe_names

__all__ = [
    "OPERANDS",
    "Cast",
    "Delayed",
    "Granularity",
    "LayerPrecision",
    "LossScale",
    "Recipe",
    "RecipeOverrides",
    "Rule",
    "ScaleRule",
    "Signs",
    "auto_recipe",
    "load_recipe",
    "parse_cast",
    "recipe",
    "recipe_names",
]
