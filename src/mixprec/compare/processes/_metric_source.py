"""Where a script's metrics are read: a file that it writes, and a key in its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

#: Names of metrics that are more than figures of quality.
LOSS, TRAIN_LOSS, STEP_SECONDS = "loss", "train_loss", "step_seconds"
_EXAMPLE = '"{run}/log.jsonl:val_loss" or "{run}/log.jsonl:acc=accuracy"'


@dataclass(frozen=True, kw_only=True)
class MetricSource:
    """One metric of a script.

    Attributes:
        file: the file's name, with places such as ``{run}``.
        key: of a JSON line, or of a CSV file's column; ``a.b`` looks into objects where there is no such key.
        name: what tables call it.
        is_labelled: whether the user gave the name.
    """

    file: str
    key: str
    name: str
    is_labelled: bool = False


def parse_metric(text: str) -> MetricSource:
    """Read ``file:key`` or ``file:key=name``.

    Raises:
        ValueError: another form.

    Example:
        >>> found = parse_metric("{run}/log.jsonl:eval.acc=accuracy")
        >>> found.file, found.key, found.name
        ('{run}/log.jsonl', 'eval.acc', 'accuracy')
    """
    file, colon, rest = text.rpartition(":")
    key, equals, name = rest.partition("=")
    if not colon or not file.strip() or not key.strip() or (equals and not name.strip()):
        raise ValueError(f"metric '{text}' cannot be read: expected file:key or file:key=name, such as {_EXAMPLE}")
    return MetricSource(
        file=file.strip(), key=key.strip(), name=(name if equals else key).strip(), is_labelled=bool(equals)
    )


def with_loss(metrics: Sequence[MetricSource]) -> tuple[MetricSource, ...]:
    """Metrics with one that is the loss: the one so named, else the first that the user gave no name.

    Raises:
        ValueError: none, or two of one name.

    Example:
        >>> [m.name for m in with_loss([parse_metric("a.csv:val_loss"), parse_metric("a.csv:acc")])]
        ['loss', 'acc']
    """
    if not metrics:
        raise ValueError(f"a command needs a metric to compare: give --metric, such as {_EXAMPLE}")
    named = list(metrics)
    special = (TRAIN_LOSS, STEP_SECONDS)
    if not any(metric.name == LOSS for metric in named):
        free = [i for i, metric in enumerate(named) if not metric.is_labelled and metric.name not in special]
        if not free:
            raise ValueError(
                f"none of the metrics {', '.join(metric.name for metric in named)} is the loss, which gaps are taken "
                "of (lower is better): add =loss to the one that is"
            )
        named[free[0]] = replace(named[free[0]], name=LOSS)
    repeated = [name for name, count in Counter(metric.name for metric in named).items() if count > 1]
    if repeated:
        raise ValueError(f"two metrics are named '{repeated[0]}': give one another name, such as file:key=name")
    return tuple(named)
