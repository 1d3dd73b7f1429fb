"""Records through the user's own Weights & Biases run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ...records import (
    ComparisonRecord,
    FindingRecord,
    IncidentRecord,
    IncidentTally,
    Record,
    StepRecord,
    incident_text,
    is_unresolved,
)
from ._scalars import Scalars, step_of

#: What W&B's alerts call a finding's severity.
_LEVELS = {"fault": "ERROR", "warning": "WARN", "note": "INFO"}

PREFIX = "mixprec"


class WandbRun(Protocol):
    """What is used of the object that ``wandb.init()`` returns."""

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Send numbers."""
        ...

    def define_metric(self, name: str, step_metric: str | None = None) -> Any:
        """Say what a number is drawn over."""
        ...

    def alert(self, title: str, text: str, level: str | None = None) -> None:
        """Notify the user as their W&B settings say."""
        ...


class WandbExporter:
    """Logs a run's numbers as ``mixprec/...`` through a W&B run that the user has made; wandb is not imported.

    The numbers of a step go out in one ``run.log`` when the next step's come (or at ``close``), with the step beside
    them as ``mixprec/step``, which their panels are drawn over: W&B's own step counter stays the user's. Sends
    nothing that ``run`` does not send. ``close`` does not finish the run.

    Args:
        run: of ``wandb.init(...)``; takes the records of one recipe and seed.
        alerts: whether faults and warnings among the findings, and incidents that are open or stop the run, are also
            sent as W&B alerts (mail or Slack, as the user has set them).

    Raises:
        TypeError: ``run`` has no ``log`` or no ``define_metric``.
        ValueError: (of ``take``) a record of a second recipe or seed.

    Example:
        >>> exporter = WandbExporter(wandb.init(project="gpt"))  # doctest: +SKIP
    """

    def __init__(self, run: WandbRun, *, alerts: bool = False) -> None:
        for needed in ("log", "define_metric", *(("alert",) if alerts else ())):
            if not callable(getattr(run, needed, None)):
                raise TypeError(
                    f"WandbExporter: run {run!r} has no {needed}(): expected the object that wandb.init() returns"
                )
        self._run, self._alerts, self._scalars = run, alerts, Scalars()
        self._incidents = IncidentTally()
        self._whose: tuple[str, int] | None = None
        self._step, self._held = 0, dict[str, float]()
        run.define_metric(f"{PREFIX}/step")
        run.define_metric(f"{PREFIX}/*", step_metric=f"{PREFIX}/step")

    def take(self, record: Record) -> None:
        """Hold a record's numbers until its step is complete."""
        step = step_of(record)
        if step is None or isinstance(record, ComparisonRecord):
            return
        self._refuse_others((record.recipe, record.seed))
        # A step's own record opens it; what follows up to the next one belongs to it.
        if isinstance(record, StepRecord) or step != self._step:
            self._send()
        self._step = step
        self._held |= self._scalars.of(record)
        if self._alerts:
            self._alert(record)

    def close(self) -> None:
        """Send what is held back; the run stays the user's to finish."""
        self._send()

    def _alert(self, record: Record) -> None:
        match record:
            case FindingRecord() if record.severity != "note":
                where = f"{record.site}: " if record.site else ""
                text = f"step {record.step}: {where}{record.message}" + (f"\n{record.remedy}" if record.remedy else "")
                self._run.alert(title=record.name, text=text, level=_LEVELS[record.severity])
            case IncidentRecord() if self._incidents.take(record).is_news and is_unresolved(record):
                level = _LEVELS["fault" if record.outcome == "stopped" else "warning"]
                text = f"step {record.step}: {incident_text(record)}"
                self._run.alert(title=f"incident {record.number}: {record.trigger}", text=text, level=level)
            case _:
                pass

    def _send(self) -> None:
        if self._held:
            self._run.log(_named(self._held) | {f"{PREFIX}/step": self._step})
            self._held = {}

    def _refuse_others(self, whose: tuple[str, int]) -> None:
        if self._whose is None:
            self._whose = whose
        if whose != self._whose:
            (recipe, seed), (first, first_seed) = whose, self._whose
            raise ValueError(
                f"WandbExporter: got a record of {recipe} seed {seed} after those of {first} seed {first_seed}: a W&B "
                "run shows one training run; give each an exporter and a run of its own"
            )


def _named(numbers: Mapping[str, float]) -> dict[str, Any]:
    return {f"{PREFIX}/{name}": value for name, value in numbers.items()}
