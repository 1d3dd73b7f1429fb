"""Alarms on what formats do to tensors: too much flushed, saturated or drowned in noise, or more and more of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...records import StatisticsRecord
from .._finding import Finding
from ._curve import Past
from ._latch import Latches
from ._thresholds import Thresholds

#: Samples of a tensor that the median of its past is taken over.
_SAMPLES = 16
_REMEDY = {
    "flushed": "a scale for each block (e.g. mxfp8), a format with a wider range, or for fp16 gradients a larger loss "
    "scale; or this layer in the compute dtype",
    "saturated": "a current scale instead of a delayed one, a scale rule that rounds up (rceil), or a wider format; or "
    "this layer in the compute dtype",
    "noise": "smaller blocks or a format with more mantissa bits; or this layer in the compute dtype",
}
_WORDS = {"flushed": "of its non-zero elements become zero", "saturated": "of its elements are beyond the range"}


class FormatAlarm:
    """Compares each sampled tensor that a format is in use for with fixed limits, and with its own past."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._at, self._latches = thresholds, Latches(max(thresholds.rearm // 10, 1))
        self._past: dict[str, Past] = {}

    def look(self, records: Iterable[StatisticsRecord]) -> list[Finding]:
        """The statistics of a sampled step; what-ifs are no alarms."""
        in_use = [record for record in records if record.in_use]
        return [*self._not_finite(in_use), *(finding for record in in_use for finding in self._looked(record))]

    def _not_finite(self, records: Sequence[StatisticsRecord]) -> list[Finding]:
        """All tensors of a step that hold inf or NaN, as one event: they spread from tensor to tensor.

        Those of gradients are left out: a dynamic loss scale makes them on purpose, and a step that one breaks tells
        its loss or its skipping.
        """
        forward = [record for record in records if not record.role.startswith("grad")]
        bad = [record for record in forward if record.nonfinite]
        if not forward or not self._latches.tells("non-finite operand", bool(bad)):
            return []
        first, names = bad[0], list(dict.fromkeys(f"{record.site} ({record.role})" for record in bad))
        return [
            Finding(
                step=first.step,
                name="non-finite operand",
                severity="fault",
                site=names[0],
                message=f"{first.nonfinite} of its {first.elements} elements are inf or NaN"
                + (f", as in {len(names) - 1} more tensors of the step ({', '.join(names[1:4])})" if names[1:] else ""),
                evidence={"not finite": float(first.nonfinite), "tensors": float(len(names)), "amax": first.amax},
                threshold="none",
                remedy="replay the step: `mixprec doctor RUN --workload FILE` names the operation that made the first",
            )
        ]

    def _looked(self, record: StatisticsRecord) -> list[Finding]:
        found = [
            *self._share(record, "flushed", record.flushed, self._at.flushed),
            *self._share(record, "saturated", record.saturated, self._at.saturated),
        ]
        is_fp16_gradient = record.role == "grad_output" and record.cast == "fp16"
        if self._latches.tells(f"vanished {_key(record)}", is_fp16_gradient and record.zeros > self._at.vanished):
            found.append(self._vanished(record))
        if self._latches.tells(f"noise {_key(record)}", record.sqnr_db < self._at.sqnr_db):
            found.append(self._noise(record))
        return found

    def _share(self, record: StatisticsRecord, kind: str, share: float, limit: float) -> list[Finding]:
        key = f"{kind} {_key(record)}"
        past = self._past.setdefault(key, Past(_SAMPLES))
        usual = past.middle() if len(past.values) >= 3 else None
        past.add(share)
        is_rising = usual is not None and share >= self._at.rising_least and share > self._at.rising * usual
        found: list[Finding] = []
        if self._latches.tells(key, share > limit):
            found.append(self._finding(record, kind, share, f"above {100 * limit:g} %", usual))
        elif self._latches.tells(f"rising {key}", is_rising and share <= limit):
            text = f"{self._at.rising:g} times the median of its earlier samples"
            found.append(self._finding(record, f"rising {kind}", share, text, usual))
        return found

    def _finding(
        self, record: StatisticsRecord, name: str, share: float, threshold: str, usual: float | None
    ) -> Finding:
        kind = name.removeprefix("rising ")
        before = "" if usual is None or kind == name else f", {100 * usual:.2g} % before"
        evidence = {name: share, "amax": record.amax, "elements": float(record.elements)}
        return Finding(
            step=record.step,
            name=name,
            severity="warning",
            site=f"{record.site} ({record.role})",
            message=f"{100 * share:.3g} % {_WORDS[kind]} in {record.cast}{before}",
            evidence=evidence if usual is None else evidence | {"before": usual},
            threshold=threshold,
            remedy=_REMEDY[kind],
            rule=_rule(record),
        )

    def _vanished(self, record: StatisticsRecord) -> Finding:
        return Finding(
            step=record.step,
            name="vanished gradient",
            severity="warning",
            site=f"{record.site} ({record.role})",
            message=f"{100 * record.zeros:.3g} % of its elements are zero: what is below 6e-8 vanishes in fp16",
            evidence={"zeros": record.zeros, "amax": record.amax, "elements": float(record.elements)},
            threshold=f"above {100 * self._at.vanished:g} %",
            remedy="a larger loss scale; a dynamic one finds it",
            rule='[loss_scale]\nkind = "dynamic"\n',
        )

    def _noise(self, record: StatisticsRecord) -> Finding:
        return Finding(
            step=record.step,
            name="noise",
            severity="warning",
            site=f"{record.site} ({record.role})",
            message=f"its signal is only {record.sqnr_db:.3g} dB above the rounding noise of {record.cast}",
            evidence={"SQNR [dB]": record.sqnr_db, "relative error": record.relative_error},
            threshold=f"below {self._at.sqnr_db:g} dB",
            remedy=_REMEDY["noise"],
            rule=_rule(record),
        )

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        past = {key: list(one.values) for key, one in self._past.items()}
        return {"past": past, "told": self._latches.state()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from a ``state()``."""
        for key, values in state["past"].items():
            self._past.setdefault(key, Past(_SAMPLES)).values.extend(values)
        self._latches.load(state["told"])


def _key(record: StatisticsRecord) -> str:
    return f"{record.site} {record.role} {record.cast}"


def _rule(record: StatisticsRecord) -> str:
    """What keeps a GEMM operand's layer in the compute dtype; nothing for tensors that no rule is about."""
    if record.role not in ("input", "weight", "grad_output") or record.cast in ("fp32", "bf16", "fp16"):
        return ""
    return f'[[rules]]\nmatch = "{record.site}"\nprecision = "compute"\n'
