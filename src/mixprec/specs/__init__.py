"""Casts, layer precisions, rules and recipes, and their TOML and one-line forms."""

from ._cast import Cast, Granularity, ScaleRule
from ._layer import OPERANDS, LayerPrecision
from ._parse import parse_cast
from ._recipe import LossScale, Recipe, Rule
from ._recipes import RecipeOverrides, auto_recipe, load_recipe, recipe, recipe_names

__all__ = [
    "OPERANDS",
    "Cast",
    "Granularity",
    "LayerPrecision",
    "LossScale",
    "Recipe",
    "RecipeOverrides",
    "Rule",
    "ScaleRule",
    "auto_recipe",
    "load_recipe",
    "parse_cast",
    "recipe",
    "recipe_names",
]
