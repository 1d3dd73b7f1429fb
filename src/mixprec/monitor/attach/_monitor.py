"""Watching a loop that is somebody else's: nothing is converted, nothing changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from ...nn import Conversion, conversion_of
from ...optim import HALF_DTYPES
from ...records import Record, StatisticsRecord, UpdateRecord
from .._alarm_watch import AlarmWatch
from .._finding import Finding
from .._listeners import Listener, Listeners
from .._monitoring import Monitoring
from .._remembering import load_watches_state, share_states, watches_state
from .._stalled_weights import StalledWeights
from .._step_watch import StepWatch
from ..export import Exporters
from ..locate import Locator
from ..recorder import FlightRecorder
from ..sampling import Sampled, Sampler
from ._arguments import check_model, innermost, optimizers_of
from ._folder import MonitoredFolder
from ._loop import LoopSteps
from ._report import report_text

#: What records call a run whose model is not converted.
RECIPE = "as it is"


class Monitor:
    """Made by ``mixprec.monitor``; watches a loop until ``remove()``.

    Attributes:
        model: that is watched; a wrapper's inner one.
        recorder: the flight recorder, or ``None`` without a run folder.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer] | None,
        options: Monitoring,
        *,
        run: str | Path | None,
        scaler: Any,
        seed: int,
    ) -> None:
        check_model(model)
        self.model = innermost(model)
        self._optimizers = optimizers_of(self.model, optimizer)
        conversion = _conversion_in(self.model)
        recipe = RECIPE if conversion is None else conversion.recipe.name
        self._folder = None if run is None else MonitoredFolder(run, recipe=recipe, seed=seed)
        self._listeners = Listeners(recipe=recipe, seed=seed)
        own = self._make_watches(options, conversion, is_scaled=scaler is not None)
        self._watches: dict[str, StepWatch] = {**own, **{f"own {i}": watch for i, watch in enumerate(options.watches)}}
        share_states(self._watches.values())
        try:
            watches = list(self._watches.values())
            self._loop = LoopSteps(self.model, self._optimizers, scaler, watches, self._listeners)
        except (TypeError, ValueError):
            for watch in own.values():
                watch.close()
            self._release()
            raise
        if self._folder is not None:
            self._listeners.add(self._write)
        self._has_begun = False

    def _make_watches(
        self, options: Monitoring, conversion: Conversion | None, *, is_scaled: bool
    ) -> dict[str, StepWatch]:
        """By name, in the order in which they are told of a step."""
        told, names, made = self._listeners, tuple(self._optimizers), dict[str, StepWatch]()
        if options.locate:
            # The first: what a replay shows the sampler is not told then, for the step itself has shown it.
            made["locator"] = Locator(self.model, conversion, is_dynamic=is_scaled, optimizers=names)
        sampled = Sampled(model=self.model, conversion=conversion, value=full_value, idle=self._idle, optimizers=names)
        self._sampler = made["sampler"] = Sampler(sampled, options, told)
        made["stalled weights"] = StalledWeights(self._halves(), self._idle)
        if options.alarms:
            alarms = made["alarms"] = AlarmWatch(options.thresholds, is_scaled=is_scaled)
            told.add(alarms.hear)
        self._exporters = Exporters(options.exporters)
        told.add(self._exporters.hear)
        self.recorder: FlightRecorder | None = None
        if self._folder is not None and options.recorder_steps:
            recorder = FlightRecorder(
                self.model, self._folder.path, recipe=told.recipe, seed=told.seed, steps=options.recorder_steps
            )
            told.add(lambda records: recorder.note_statistics(_statistics(records)))
            self.recorder = made["recorder"] = recorder
        return made

    @property
    def applied(self) -> int:
        """Steps that the optimizer took; of several optimizers, rounds of them."""
        return self._loop.applied

    @property
    def skipped(self) -> int:
        """Steps that the scaler skipped."""
        return self._loop.skipped

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found: the last 1,000, oldest first."""
        return self._listeners.findings

    def loss(self, loss: Tensor, name: str = "loss") -> Tensor:
        """Show the loss that is about to be backpropagated, before any scaling: ``monitor.loss(loss).backward()``.

        Args:
            loss: one number.
            name: where there are several.

        Returns:
            The loss itself.

        Raises:
            TypeError: no tensor.
            ValueError: not one number.
        """
        if not isinstance(loss, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
            raise TypeError(f"monitor.loss: got a {type(loss).__name__}, expected a tensor (before .item())")
        if loss.numel() != 1:
            raise ValueError(f"monitor.loss: got shape {list(loss.shape)}, expected one number: use loss.mean()")
        self._loop.loss(loss, name)
        return loss

    def statistics(self) -> tuple[StatisticsRecord, ...]:
        """Of the last sampled step; waits for an accelerator that has not told them yet."""
        return self._sampler.statistics()

    def updates(self) -> tuple[UpdateRecord, ...]:
        """What the last sampled step that was applied did to each parameter."""
        return self._sampler.updates()

    def listen(self, listener: Listener) -> None:
        """Let ``listener`` hear every record from now on: steps, statistics, updates, findings."""
        self._listeners.add(listener)

    def report(self) -> str:
        """What was seen and found so far, in words."""
        return report_text(self)

    def __str__(self) -> str:
        return self.report()

    def state_dict(self) -> dict[str, Any]:
        """What continues the monitor: steps, what alarms remember, an open window of updates."""
        return {
            "applied": self._loop.applied,
            "skipped": self._loop.skipped,
            "watches": watches_state(self._watches),
            "told": self._loop.told.state_dict(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``; to be called before the first step.

        Raises:
            ValueError: steps were seen already.
        """
        if self._loop.applied or self._loop.skipped:
            raise ValueError(
                f"monitor.load_state_dict: {self._loop.applied} steps were seen already: load before the first"
            )
        self._loop.step, self._loop.skipped = int(state_dict["applied"]), int(state_dict["skipped"])
        load_watches_state(self._watches, state_dict["watches"])
        self._loop.told.load_state_dict(state_dict["told"])

    def remove(self) -> None:
        """Take every hook off, give the scaler its class back, close the folder; a second call does nothing."""
        self._loop.close()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is not None:
            self._loop.failed(error)
        self.remove()

    @property
    def own_seconds(self) -> float:
        """Time that watching has taken [s]; on an accelerator, that of handing the work over."""
        recorded = 0.0 if self.recorder is None else self.recorder.own_seconds
        return self._loop.own_seconds + self._sampler.pass_seconds + recorded

    def _release(self) -> None:
        self._exporters.close()
        if self._folder is not None:
            self._folder.release()

    def _write(self, records: Sequence[Record]) -> None:
        if self._folder is None:
            return
        if not self._has_begun:
            self._has_begun = True
            self._folder.begin(self._loop.step)
        self._folder.write(records)

    def _halves(self) -> dict[str, dict[str, Parameter]]:
        """Parameters of 16 bits that an optimizer updates itself, by its name."""
        halves = {n: p for n, p in self.model.named_parameters() if p.dtype in HALF_DTYPES}
        return {
            name: {n: p for n, p in halves.items() if id(p) in _ids(optimizer)}
            for name, optimizer in self._optimizers.items()
        }

    def _idle(self) -> set[int]:
        groups = [group for optimizer in self._optimizers.values() for group in optimizer.param_groups]
        return {id(p) for group in groups if _is_zero(group.get("lr")) for p in group["params"]}


@torch.no_grad()
def full_value(param: Parameter) -> Tensor:
    """A parameter's value, fresh, in fp32 at least; this rank's part of a sharded one."""
    value = param.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()  # pyright: ignore[reportAttributeAccessIssue]
    return value.clone() if value.dtype.itemsize >= 4 else value.float()


def _ids(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _is_zero(rate: Any) -> bool:
    """Whether a learning rate is 0; one that is a tensor is not brought to the host for it."""
    return not isinstance(rate, Tensor) and rate == 0


def _statistics(records: Sequence[Record]) -> list[StatisticsRecord]:
    return [record for record in records if isinstance(record, StatisticsRecord)]


def _conversion_in(model: nn.Module) -> Conversion | None:
    return next((found for found in map(conversion_of, model.modules()) if found is not None), None)
