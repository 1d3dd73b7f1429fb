"""Casts, layer precisions, rules and recipes, and their TOML and one-line forms."""

from ._accumulator import Accumulator, parse_accumulator
from ._cast import Cast, ScaleRule, Signs
from ._delayed import Delayed
from ._describe_recipe import RecipeDescription, describe_recipe
from ._differences import recipe_differences
from ._granularity import Granularity
from ._layer import OPERANDS, ROLES, LayerPrecision, operands_of
from ._loss_scale import LossScale
from ._moments import MomentKind, Moments, parse_moments
from ._parse import parse_cast
from ._phase import Phase
from ._recipe import Recipe, Weights
from ._recipes import RecipeOverrides, auto_recipe, load_recipe, recipe, recipe_names
from ._rule import ACTIVATION_PRODUCTS, Layer, Rule
from ._site_rules import places_of, rules_at
from ._sweep import NoCastError, sweep_recipe
from ._widen import WIDTHS, next_width, widen_precision, width

__all__ = [
    "ACTIVATION_PRODUCTS",
    "OPERANDS",
    "ROLES",
    "WIDTHS",
    "Accumulator",
    "Cast",
    "Delayed",
    "Granularity",
    "Layer",
    "LayerPrecision",
    "LossScale",
    "MomentKind",
    "Moments",
    "NoCastError",
    "Phase",
    "Recipe",
    "RecipeDescription",
    "RecipeOverrides",
    "Rule",
    "ScaleRule",
    "Signs",
    "Weights",
    "auto_recipe",
    "describe_recipe",
    "load_recipe",
    "next_width",
    "operands_of",
    "parse_accumulator",
    "parse_cast",
    "parse_moments",
    "places_of",
    "recipe",
    "recipe_differences",
    "recipe_names",
    "rules_at",
    "sweep_recipe",
    "widen_precision",
    "width",
]
