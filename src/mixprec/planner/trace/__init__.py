"""One training step of a model, traced without computing it: its products, its traffic, its memory."""

from ._memory_forecast import MemoryForecast
from ._predict_memory import predict_memory
from ._take_inventory import take_inventory

__all__ = ["MemoryForecast", "predict_memory", "take_inventory"]
