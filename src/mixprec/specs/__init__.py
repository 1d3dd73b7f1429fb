"""Casts, layer precisions, rules and recipes, and their TOML and one-line forms."""

from ._accumulator import Accumulator, parse_accumulator
from ._cast import Cast, ScaleRule, Signs
from ._delayed import Delayed
from ._describe_recipe import RecipeDescription, describe_recipe
from ._differences import recipe_differences
from ._granularity import Granularity
from ._layer import OPERANDS, LayerPrecision
from ._loss_scale import LossScale
from ._moments import MomentKind, Moments, parse_moments
from ._parse import parse_cast
from ._phase import Phase
from ._recipe import Recipe, Weights
from ._recipes import RecipeOverrides, auto_recipe, load_recipe, recipe, recipe_names
from ._rule import ACTIVATION_PRODUCTS, Layer, Rule
from ._sweep import NoCastError, sweep_recipe

__all__ = [
    "ACTIVATION_PRODUCTS",
    "OPERANDS",
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
    "parse_accumulator",
    "parse_cast",
    "parse_moments",
    "recipe",
    "recipe_differences",
    "recipe_names",
    "sweep_recipe",
]
