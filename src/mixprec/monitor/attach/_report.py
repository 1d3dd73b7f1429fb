"""A monitor in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...records import StatisticsRecord

if TYPE_CHECKING:
    from ._monitor import Monitor

_ROWS = 8


def report_text(monitor: Monitor) -> str:
    """Steps, findings, and the tensors that their formats treat worst.

    Args:
        monitor: that is asked.
    """
    lines = [f"monitor: {monitor.applied} steps applied, {monitor.skipped} skipped; {_count(len(monitor.findings))}"]
    lines += [f"  {finding}" for finding in monitor.findings[-_ROWS:]]
    records = monitor.statistics()
    if not records:
        return "\n".join([*lines, "no step was sampled yet"])
    in_use = [record for record in records if record.in_use]
    worst = sorted(in_use, key=_harm, reverse=True)[:_ROWS]
    lines.append(f"step {records[0].step}: {len(in_use)} tensors sampled; those that their formats change most:")
    return "\n".join([*lines, *map(_row, worst)])


def _harm(record: StatisticsRecord) -> float:
    return max(record.flushed, record.saturated, record.relative_error, float(record.nonfinite > 0))


def _row(record: StatisticsRecord) -> str:
    bad = f", {record.nonfinite} inf or NaN" if record.nonfinite else ""
    flushed, subnormal, saturated = (100 * share for share in (record.flushed, record.subnormal, record.saturated))
    return (
        f"  {record.site} ({record.role}) {record.cast}: amax {record.amax:.3g}, {flushed:.2f} % flushed, "
        f"{subnormal:.2f} % subnormal, {saturated:.2f} % saturated, {record.sqnr_db:.1f} dB{bad}"
    )


def _count(n: int) -> str:
    return "1 finding" if n == 1 else f"{n} findings"
