"""One training step of a model, traced without computing it: its products, its traffic, its memory."""

from ._largest_batch import LargestBatch, largest_batch
from ._memory_forecast import MemoryForecast
from ._predict_memory import predict_memory
from ._resize import resized
from ._take_inventory import take_inventory

__all__ = ["LargestBatch", "MemoryForecast", "largest_batch", "predict_memory", "resized", "take_inventory"]
