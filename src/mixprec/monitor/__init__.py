"""What watches a run: sampling, the first bad tensor, exporters, and what is held in memory.

The package itself is callable: ``mixprec.monitor(model, optimizer)`` is ``attach``.
"""

import sys

from ._alarm_watch import AlarmWatch
from ._aside import everything_aside
from ._callable_package import CallablePackage
from ._finding import Finding
from ._listeners import Listeners
from ._model_hooks import ModelHook, called_modules
from ._monitoring import Monitoring
from ._named_parameters import NamedParameters
from ._random_states import load_random_states, random_states
from ._remembering import load_watches_state, share_states, watches_state
from ._run_records import RECIPE, RunRecords, recorded_steps, resumed_text
from ._saved_tensors import SavedStorage, SavedTensors, can_look_into_graphs, saved_tensors
from ._stalled_weights import StalledWeights
from ._step_records import StepRecords, least_scale
from ._step_watch import QuietWatch, StepFacts, StepWatch
from ._storages import StorageKey, storage_bytes, storages_in, tensors_in
from ._told_once import ToldOnce
from ._updates import UpdateFinding, UpdateWatch
from ._watches import StepWatches
from .alarms import Alarms, Thresholds
from .attach import Monitor, attach
from .check import Preflight, check_step
from .locate import Fault, Locator, StepRecording, locate
from .recorder import FlightRecorder
from .sampling import Sampled, Sampler

__all__ = [
    "RECIPE",
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
    "NamedParameters",
    "Preflight",
    "QuietWatch",
    "RunRecords",
    "Sampled",
    "Sampler",
    "SavedStorage",
    "SavedTensors",
    "StalledWeights",
    "StepFacts",
    "StepRecording",
    "StepRecords",
    "StepWatch",
    "StepWatches",
    "StorageKey",
    "Thresholds",
    "ToldOnce",
    "UpdateFinding",
    "UpdateWatch",
    "attach",
    "called_modules",
    "can_look_into_graphs",
    "check_step",
    "everything_aside",
    "least_scale",
    "load_random_states",
    "load_watches_state",
    "locate",
    "random_states",
    "recorded_steps",
    "resumed_text",
    "saved_tensors",
    "share_states",
    "storage_bytes",
    "storages_in",
    "tensors_in",
    "watches_state",
]

sys.modules[__name__].__class__ = CallablePackage
