"""What a workload says of its own metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mixprec.planner import QualityTarget, Targets
from mixprec.records import Better, TargetRow, TargetUnit


@dataclass(frozen=True, kw_only=True)
class MetricGoal:
    """Which values of a metric are better, and the largest gap to the baseline that a recipe may cost.

    Attributes:
        better: a ``"lower"`` or a ``"higher"`` value.
        absolute: largest gap in the direction that is worse, in the metric's units; ``None``, with ``relative``, where
            the metric is to be told and not to be judged.
        relative: the same over the baseline's value.

    Raises:
        ValueError: both gaps, or one that is negative or not finite.

    Example:
        >>> MetricGoal(better="higher", absolute=0.005).absolute
        0.005
    """

    better: Better = "lower"
    absolute: float | None = None
    relative: float | None = None

    def __post_init__(self) -> None:
        if self.absolute is not None or self.relative is not None:
            QualityTarget(absolute=self.absolute, relative=self.relative)  # refuses what is no gap


def target_rows(targets: Targets) -> tuple[TargetRow, ...]:
    """Targets as the records keep them; what layers may be given is no matter of a comparison.

    Example:
        >>> [row["name"] for row in target_rows(Targets(quality={"loss": QualityTarget(absolute=0.01)}))]
        ['quality.loss']
    """
    rows = [
        _quality(name, targets.directions[name], target.absolute, target.relative)
        for name, target in targets.quality.items()
    ]
    limits: tuple[tuple[str, float | None, TargetUnit], ...] = (
        ("latency.ratio", targets.latency.ratio, "ratio"),
        ("latency.milliseconds", targets.latency.milliseconds, "milliseconds"),
        ("memory.bytes", targets.memory.bytes, "bytes"),
        ("memory.share", targets.memory.share, "share"),
        ("cost.largest", None if targets.cost is None else targets.cost.largest, "price"),
    )
    for name, limit, unit in limits:
        if limit is not None:
            rows.append(TargetRow(name=name, limit=float(limit), unit=unit, better="lower"))
    return tuple(rows)


def targets_toml(rows: Iterable[TargetRow]) -> str:
    """What ``target_rows`` gives, as the file that it came from.

    Example:
        >>> print(targets_toml(target_rows(Targets(quality={"loss": QualityTarget(absolute=0.01)}))), end="")
        [quality.loss]
        absolute = 0.01
        better = "lower"
    """
    import tomlkit  # costs some milliseconds, which only who writes a file should pay

    tables: dict[str, dict[str, object]] = {}
    for row in rows:
        table, _, name = row["name"].partition(".")
        limit = round(row["limit"]) if row["unit"] == "bytes" else row["limit"]
        value = {row["unit"]: limit, "better": row["better"]} if table == "quality" else limit
        tables.setdefault(table, {})[name] = value
    return tomlkit.dumps(tables)  # pyright: ignore[reportUnknownMemberType]


def with_goals(asked: Iterable[TargetRow], goals: Mapping[str, MetricGoal]) -> tuple[TargetRow, ...]:
    """The targets that were asked for, and those of the workload's own goals that they do not name.

    Raises:
        ValueError: a target that takes the worse values of a metric for the better ones.
    """
    rows = {row["name"]: row for row in asked}
    for name, goal in goals.items():
        row = rows.get(f"quality.{name}")
        if row is not None and row["better"] != goal.better:
            raise ValueError(
                f"target quality.{name} counts {row['better']} values as better, the workload {goal.better} ones: "
                f'write better = "{goal.better}" in the targets'
            )
        if row is None and (goal.absolute is not None or goal.relative is not None):
            rows[f"quality.{name}"] = _quality(name, goal.better, goal.absolute, goal.relative)
    return tuple(rows.values())


def directions(targets: Iterable[TargetRow], goals: Mapping[str, MetricGoal]) -> dict[str, Better]:
    """Which values of a metric are better, as targets and workload say.

    Example:
        >>> directions((), {"f1": MetricGoal(better="higher")})
        {'f1': 'higher'}
    """
    found: dict[str, Better] = {}
    for row in targets:
        table, _, metric = row["name"].partition(".")
        if table == "quality":
            found[metric] = row["better"]
    for metric, goal in goals.items():
        found[metric] = goal.better
    return found


def _quality(name: str, better: Better, absolute: float | None, relative: float | None) -> TargetRow:
    return TargetRow(
        name=f"quality.{name}",
        limit=(relative or 0.0) if absolute is None else absolute,
        unit="relative" if absolute is None else "absolute",
        better=better,
    )
