"""From what is to be watched of a session to those who watch it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from torch import nn

from ..monitor import (
    AlarmWatch,
    FlightRecorder,
    Listeners,
    Locator,
    Monitoring,
    Sampled,
    Sampler,
    StepWatch,
    share_states,
)
from ..monitor.export import Exporters, ExportWatch
from ..nn import Conversion
from ..optim import KeptWeights
from ..records import Record, StatisticsRecord
from ..specs import Recipe
from ._full_values import FullValues
from ._idle import idle_parameters
from ._run_folder import RunFolder
from ._watching import Unwatched, Watched

#: Of a session without a run folder: what costs nothing until something goes wrong.
DEFAULT_MONITORING = Monitoring(every=0, alarms=False, recorder_steps=0)


@dataclass(frozen=True, kw_only=True)
class Watchable:
    """What a watcher of a session may ask for.

    Attributes:
        model: converted.
        conversion: of it.
        kept: its optimizers.
        recipe: of the session.
        seed: of the session.
        folder: of its run, or ``None``.
        listeners: hear what watchers measure and find; a watcher adds itself, if it is to hear others.
    """

    model: nn.Module
    conversion: Conversion
    kept: Mapping[str, KeptWeights]
    recipe: Recipe
    seed: int
    folder: RunFolder | None
    listeners: Listeners = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "listeners", Listeners(recipe=self.recipe.name, seed=self.seed))
        if self.folder is not None:
            self.listeners.add(self.folder.write)


#: Makes those who watch for one purpose; none where the options do not ask for it.
Maker = Callable[[Watchable, Monitoring], Sequence[StepWatch]]


def _alarms(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    if not monitoring.alarms:
        return ()
    watch = AlarmWatch(monitoring.thresholds, is_scaled=watchable.recipe.loss_scale.kind != "none")
    watchable.listeners.add(watch.hear)
    return (watch,)


def _exporters(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    if not monitoring.exporters:
        return ()
    watch = ExportWatch(Exporters(monitoring.exporters))
    watchable.listeners.add(watch.hear)
    return (watch,)


def _sampler(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    if not monitoring.every:
        return ()
    values = FullValues(watchable.model, watchable.kept)
    values.see()
    sampled = Sampled(
        model=watchable.model,
        conversion=watchable.conversion,
        value=values.of,
        idle=lambda: idle_parameters(watchable.kept.values()),
        optimizers=tuple(watchable.kept),
    )
    return (Sampler(sampled, monitoring, watchable.listeners),)


def _recorder(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    if watchable.folder is None or not monitoring.recorder_steps:
        return ()
    recorder = FlightRecorder(
        watchable.model,
        watchable.folder.path,
        recipe=watchable.recipe.name,
        seed=watchable.seed,
        steps=monitoring.recorder_steps,
    )
    watchable.listeners.add(lambda records: recorder.note_statistics(_statistics(records)))
    return (recorder,)


def _statistics(records: Sequence[Record]) -> list[StatisticsRecord]:
    return [record for record in records if isinstance(record, StatisticsRecord)]


def _locator(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    if not monitoring.locate:
        return ()
    is_dynamic = watchable.recipe.loss_scale.kind == "dynamic"
    return (Locator(watchable.model, watchable.conversion, is_dynamic=is_dynamic, optimizers=watchable.kept),)


def _own(watchable: Watchable, monitoring: Monitoring) -> Sequence[StepWatch]:
    return monitoring.watches


#: In the order in which they are told of a step. A replay comes before the sampler lets go of what the step itself has
#: shown: the first is told, and what is seen anew is not.
MAKERS: Mapping[str, Maker] = MappingProxyType(
    {
        "locator": _locator,
        "exporters": _exporters,
        "sampler": _sampler,
        "alarms": _alarms,
        "recorder": _recorder,
        "own": _own,
    }
)


def watching_of(watchable: Watchable, monitoring: Monitoring | None) -> Unwatched:
    """Everyone whom ``monitoring`` asks for."""
    if monitoring is None:
        return Unwatched()
    made: dict[str, StepWatch] = {}
    for name, maker in MAKERS.items():
        for i, watch in enumerate(maker(watchable, monitoring)):
            made[f"{name} {i}" if i else name] = watch
    share_states(made.values())
    return Watched(watchable.model, made, watchable.listeners) if made else Unwatched()
