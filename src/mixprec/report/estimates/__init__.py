"""Estimated steps on other hardware: the file in a run folder, and what the page shows of it."""

from ._estimates import (
    ESTIMATES,
    SCHEMA,
    HardwareEstimate,
    RecipeEstimate,
    estimates_chart,
    estimates_table,
    read_estimates,
    sites_tables,
)

__all__ = [
    "ESTIMATES",
    "SCHEMA",
    "HardwareEstimate",
    "RecipeEstimate",
    "estimates_chart",
    "estimates_table",
    "read_estimates",
    "sites_tables",
]
