"""What a session leaves on disk: records, recipe, versions."""

from __future__ import annotations

import json
import math
import platform
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ..records import EventRecord, StepRecord, write_records
from ..specs import Recipe
from ._result import Event, StepResult


class RunFolder:
    """A folder that a run appends to; made at once, so that a wrong path fails before training.

    Args:
        path: the folder; made with its parents. One that holds a run of the same recipe is continued.
        recipe: written as ``recipe.toml``.
        seed: told in every record.

    Raises:
        ValueError: the folder holds a run of another recipe.
        OSError: it cannot be written.
    """

    def __init__(self, path: str | Path, recipe: Recipe, seed: int) -> None:
        self.path, self._recipe, self._seed = Path(path), recipe.name, seed
        self.path.mkdir(parents=True, exist_ok=True)
        recipe_file = self.path / "recipe.toml"
        text = recipe.to_toml()
        if recipe_file.exists() and recipe_file.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"run folder {self.path} holds a run of another recipe ({recipe_file}): give an empty folder"
            )
        recipe_file.write_text(text, encoding="utf-8")
        versions = json.dumps(_versions(), indent=2) + "\n"
        (self.path / "versions.json").write_text(versions, encoding="utf-8")
        self._last = time.perf_counter()

    def write_events(self, events: Sequence[Event]) -> None:
        """Append events that belong to no step."""
        write_records(self.path / "records.jsonl", [self._event(event) for event in events])

    def write_step(self, step: int, losses: Sequence[float], result: StepResult, loss_scale: float | None) -> None:
        """Append a step and its events; its time is that since the last one.

        Args:
            step: applied steps before it; a skipped step shares its number with the next.
            losses: that were backpropagated; their sum is told, NaN if none came through the session.
            result: of the step.
            loss_scale: that the step ran under, or ``None``.
        """
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        record = StepRecord(
            recipe=self._recipe,
            seed=self._seed,
            step=step,
            loss=sum(losses) if losses else math.nan,
            seconds=seconds,
            applied=result.applied,
            grad_norm=result.grad_norm,
            loss_scale=loss_scale,
            tokens=None,
        )
        write_records(self.path / "records.jsonl", [record, *map(self._event, result.events)])

    def _event(self, event: Event) -> EventRecord:
        return EventRecord(
            recipe=self._recipe,
            seed=self._seed,
            step=event.step,
            name=event.name,
            site=event.site,
            message=event.message,
        )


def _versions() -> dict[str, str | int]:
    """Whatever a step's bits depend on."""
    try:
        own = version("mixprec")
    except PackageNotFoundError:
        own = "source tree"
    return {
        "mixprec": own,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
    }
