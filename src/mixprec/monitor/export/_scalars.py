"""The numbers of a record under the names that time-series viewers show."""

from __future__ import annotations

from collections import Counter

from ...records import (
    ComparisonRecord,
    EvaluationRecord,
    EventRecord,
    FindingRecord,
    IncidentRecord,
    IncidentTally,
    Record,
    RunEndRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
)

#: Figures of a tensor under a cast that are worth a curve.
TENSOR_FIGURES = ("flushed", "subnormal", "saturated", "sqnr_db", "relative_error", "bias", "amax")


class Scalars:
    """Names the numbers of one run's records; what is counted, it counts.

    Example:
        >>> from mixprec.records import FindingRecord
        >>> finding = FindingRecord(
        ...     recipe="fp16", seed=0, step=9, name="loss spike", severity="warning", site="", message="", evidence={}
        ... )
        >>> scalars = Scalars()
        >>> scalars.of(finding), scalars.of(finding)
        ({'findings/warning': 1.0}, {'findings/warning': 2.0})
    """

    def __init__(self) -> None:
        self._counted: Counter[str] = Counter()
        self._incidents, self._lost_seconds = IncidentTally(), 0.0

    def of(self, record: Record) -> dict[str, float]:
        """Name and value of each number in a record; none for records that hold no curve's point."""
        match record:
            case StepRecord():
                return self._step(record)
            case EvaluationRecord():
                kind = "evaluation" if record.forward == "recipe" else f"evaluation_{record.forward}"
                return {f"{kind}/{name}": value for name, value in record.metrics.items()}
            case StatisticsRecord():
                tensor = tensor_name(record)
                return {f"{figure}/{tensor}": float(getattr(record, figure)) for figure in TENSOR_FIGURES}
            case UpdateRecord():
                return {
                    f"update_ratio/{record.site}": record.ratio,
                    f"update_lost/{record.site}": record.lost,
                    f"weight_norm/{record.site}": record.weight_norm,
                    f"gradient_norm/{record.site}": record.gradient_norm,
                }
            case FindingRecord():
                return self._count(f"findings/{record.severity}")
            case EventRecord():
                return self._count(f"events/{record.name}")
            case IncidentRecord():
                return self._incident(record)
            case _:
                return {}

    def _step(self, record: StepRecord) -> dict[str, float]:
        self._counted["skipped_steps"] += not record.applied
        told = {"loss": record.loss, "gradient_norm": record.grad_norm, "loss_scale": record.loss_scale}
        return {
            "step_seconds": record.seconds,
            "skipped_steps": float(self._counted["skipped_steps"]),
            **{name: value for name, value in told.items() if value is not None},
            **{f"losses/{name}": value for name, value in record.losses.items()},
        }

    def _incident(self, record: IncidentRecord) -> dict[str, float]:
        told = self._incidents.take(record)
        self._counted["incident_lost_steps"] += told.lost_steps
        self._lost_seconds += told.lost_seconds
        return {
            **(self._count(f"incidents/{record.rung}") if told.is_new else {}),
            "incidents_open": float(told.open),
            "incident_lost_steps": float(self._counted["incident_lost_steps"]),
            "incident_lost_seconds": self._lost_seconds,
        }

    def _count(self, name: str) -> dict[str, float]:
        self._counted[name] += 1
        return {name: float(self._counted[name])}


def step_of(record: Record) -> int | None:
    """Where a record stands on the axis of steps, if anywhere; an incident stands where its outcome became known."""
    match record:
        case IncidentRecord() if record.resolved is not None:
            return record.resolved
        case ComparisonRecord() | RunEndRecord():
            return None
        case _:
            return getattr(record, "step", None)


def tensor_name(record: StatisticsRecord) -> str:
    """``site/role/cast`` of a tensor's statistics, with ``what-if`` before a cast that is not in use."""
    return f"{record.site}/{record.role}/{'' if record.in_use else 'what-if '}{record.cast}"
