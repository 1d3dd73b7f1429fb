"""Exporters as one who watches a loop: told of each step, they get its record."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ...records import Record, StepRecord
from .._finding import Finding
from .._step_watch import QuietWatch, StepFacts
from ._exporters import Exporters


class ExportWatch(QuietWatch):
    """Makes a record of each step, and hands it on; ``hear`` takes those that others make.

    To be told before other watches, so that a step's record comes before what was sampled in it.

    Args:
        exporters: that get the records; closed with the loop.
        recipe: told in every step's record.
        seed: told in every step's record.
        is_scaled: whether losses are scaled at all.
    """

    def __init__(self, exporters: Exporters, *, recipe: str, seed: int, is_scaled: bool) -> None:
        self._exporters, self._recipe, self._seed, self._is_scaled = exporters, recipe, seed, is_scaled
        self._last = time.perf_counter()

    def hear(self, records: Sequence[Record]) -> None:
        """Records that other watches made."""
        self._exporters.hear(records)

    def after_update(self, facts: StepFacts) -> tuple[Finding, ...]:
        """An applied step."""
        return self._step(facts, applied=True)

    def skipped(self, facts: StepFacts) -> tuple[Finding, ...]:
        """A skipped step."""
        return self._step(facts, applied=False)

    def close(self) -> None:
        """Close the exporters."""
        self._exporters.close()

    def _step(self, facts: StepFacts, *, applied: bool) -> tuple[Finding, ...]:
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        scales = [facts.loss_scales[name] for name, _ in facts.losses if name in facts.loss_scales]
        self._exporters.take(
            StepRecord(
                recipe=self._recipe,
                seed=self._seed,
                step=facts.step,
                loss=sum(loss for _, loss in facts.losses) if facts.losses else math.nan,
                seconds=seconds,
                applied=applied,
                grad_norm=facts.grad_norm,
                loss_scale=min(scales or facts.loss_scales.values(), default=None) if self._is_scaled else None,
                tokens=None,
            )
        )
        return ()
