"""What watches a run: sampling, the first bad tensor, exporters, and what is held in memory.

The package itself is callable: ``mixprec.monitor(model, optimizer)`` is ``attach``.
"""

import sys

from ._alarm_watch import AlarmWatch
from ._callable_package import CallablePackage
from ._finding import Finding
from ._listeners import Listeners
from ._model_hooks import ModelHook, called_modules
from ._monitoring import Monitoring
from ._random_states import load_random_states, random_states
from ._saved_tensors import SavedStorage, SavedTensors, can_look_into_graphs, saved_tensors
from ._stalled_weights import StalledWeights
from ._step_watch import QuietWatch, StepFacts, StepWatch
from ._storages import StorageKey, storage_bytes, storages_in, tensors_in
from ._updates import UpdateFinding, UpdateWatch
from ._watches import StepWatches
from .alarms import Alarms, Thresholds
from .attach import Monitor, attach
from .check import Preflight, check_step
from .locate import Fault, Locator, StepRecording, locate
from .recorder import FlightRecorder
from .sampling import Sampled, Sampler

__all__ = [
    "AlarmWatch",
    "Alarms",
    "Fault",
    "Finding",
    "FlightRecorder",
    "Listeners",
    "Locator",
    "ModelHook",
    "Monitor",
    "Monitoring",
    "Preflight",
    "QuietWatch",
    "Sampled",
    "Sampler",
    "SavedStorage",
    "SavedTensors",
    "StalledWeights",
    "StepFacts",
    "StepRecording",
    "StepWatch",
    "StepWatches",
    "StorageKey",
    "Thresholds",
    "UpdateFinding",
    "UpdateWatch",
    "attach",
    "called_modules",
    "can_look_into_graphs",
    "check_step",
    "load_random_states",
    "locate",
    "random_states",
    "saved_tensors",
    "storage_bytes",
    "storages_in",
    "tensors_in",
]

sys.modules[__name__].__class__ = CallablePackage
