"""What watches a run: sampling, the first bad tensor, exporters, and what is held in memory."""

from ._finding import Finding
from ._random_states import load_random_states, random_states
from ._saved_tensors import SavedStorage, SavedTensors, can_look_into_graphs, saved_tensors
from ._step_watch import StepFacts, StepWatch
from ._storages import StorageKey, storage_bytes, storages_in, tensors_in
from ._updates import UpdateFinding, UpdateWatch
from .alarms import Alarms, Thresholds

__all__ = [
    "Alarms",
    "Finding",
    "SavedStorage",
    "SavedTensors",
    "StepFacts",
    "StepWatch",
    "StorageKey",
    "Thresholds",
    "UpdateFinding",
    "UpdateWatch",
    "can_look_into_graphs",
    "load_random_states",
    "random_states",
    "saved_tensors",
    "storage_bytes",
    "storages_in",
    "tensors_in",
]
