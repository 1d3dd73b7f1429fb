"""One training step of a model, traced without computing it: its products, its traffic, its memory."""

from ._take_inventory import take_inventory

__all__ = ["take_inventory"]
