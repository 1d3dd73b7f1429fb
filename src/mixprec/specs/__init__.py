"""Casts, layer precisions, rules and recipes, and their TOML and one-line forms."""

from ._cast import Cast, Granularity

__all__ = ["Cast", "Granularity"]
