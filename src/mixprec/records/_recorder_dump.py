"""What a flight recorder leaves: the last steps before something went wrong, as JSON that needs no torch to be read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, cast

from ._fields import field_decoders, to_json

#: Version of the dumps that this package writes.
DUMP_SCHEMA_VERSION = 1
#: Below a run folder; each dump is a folder in it, with this file.
DUMPS, DUMP_FILE = "recorder", "dump.json"
_NAME = re.compile(r"dump-(\d{4,})-step-\d{8,}-[a-z-]+")

Outcome = Literal["applied", "skipped", "dropped", "failed", "in flight"]
Reason = Literal["non-finite", "exception", "signal", "request"]


class TensorRow(TypedDict):
    """A tensor among the arguments of the model, by its place there, e.g. ``args[0]``."""

    place: str
    shape: tuple[int, ...]
    dtype: str
    device: str


class BatchRow(TypedDict):
    """What one forward pass was called with: the user's name for it (may be empty), a hash of a sample, its tensors."""

    name: str
    hash: str
    tensors: tuple[TensorRow, ...]


class StatisticsRow(TypedDict):
    """What a format did to one tensor; as in ``StatisticsRecord``."""

    site: str
    role: str
    cast: str
    in_use: bool
    nonfinite: int
    amax: float
    flushed: float
    saturated: float
    sqnr_db: float


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """One step in the recorder's ring.

    Attributes:
        step: applied steps before it.
        outcome: what became of it; ``"in flight"``: nothing yet, when the dump was written.
        time: when it began [s since 1970].
        losses: by name; a micro-batch's after the first is named ``"loss#2"`` and so on.
        grad_norm: of all gradients, unscaled, before clipping; ``None`` where it was not reached.
        norms: of each parameter's gradient, by the parameter's name.
        loss_scales: by the loss's name.
        batches: one for each forward pass of the model that was seen.
        statistics: where the step was sampled.
    """

    step: int
    outcome: Outcome
    time: float
    losses: Mapping[str, float]
    grad_norm: float | None
    norms: Mapping[str, float]
    loss_scales: Mapping[str, float]
    batches: tuple[BatchRow, ...]
    statistics: tuple[StatisticsRow, ...]


@dataclass(frozen=True, kw_only=True)
class RecorderDump:
    """The last steps of a run, and why they were written.

    Attributes:
        reason: what they were written for.
        detail: in words: the error and its traceback, the signal, the request.
        is_ordinary: whether it is a dynamic loss scale that finds its level; such dumps are the first to go.
        step: applied steps when it was written.
        recipe: the recipe's name; empty where nothing was converted.
        seed: the run's.
        written: when, in words.
        pid: of the process.
        host: that it ran on.
        versions: of packages, by name.
        batch: empty where the arguments of the last passes are in the dump, else why they are not.
        steps: oldest first.
    """

    reason: Reason
    detail: str
    is_ordinary: bool
    step: int
    recipe: str
    seed: int
    written: str
    pid: int
    host: str
    versions: Mapping[str, str]
    batch: str
    steps: tuple[RecordedStep, ...]

    def to_text(self) -> str:
        """As JSON, one line for each step.

        Example:
            >>> dump = RecorderDump(
            ...     reason="request", detail="", is_ordinary=False, step=3, recipe="bf16", seed=0, written="", pid=1,
            ...     host="a", versions={}, batch="", steps=(),
            ... )
            >>> RecorderDump.from_text(dump.to_text()) == dump
            True
        """
        head = {item.name: to_json(getattr(self, item.name)) for item in fields(self) if item.name != "steps"}
        head = {"schema": DUMP_SCHEMA_VERSION, "type": "recorder dump", **head}
        lines = ",\n  ".join(json.dumps(_body(step), allow_nan=False) for step in self.steps)
        return json.dumps(head, allow_nan=False)[:-1] + f', "steps": [\n  {lines}\n]}}\n'

    @classmethod
    def from_text(cls, text: str) -> RecorderDump:
        """Read it back.

        Raises:
            ValueError: it is no dump, is damaged, or a newer version wrote it.
        """
        try:
            value: object = json.loads(text)
        except ValueError as error:
            raise ValueError(f"it is no JSON, or was cut off ({error})") from None
        body = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        schema = body.pop("schema", None)
        if body.pop("type", None) != "recorder dump" or not isinstance(schema, int):
            raise ValueError("it is no dump of a flight recorder")
        if schema > DUMP_SCHEMA_VERSION:
            raise ValueError(
                f"it has schema version {schema}, this mixprec reads up to {DUMP_SCHEMA_VERSION}: install a newer one"
            )
        steps = body.pop("steps", [])
        try:
            return _made(cls, {**body, "steps": []}, steps=tuple(_made(RecordedStep, step) for step in steps))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"it is damaged: {error}") from None


def find_dumps(run: str | Path) -> list[Path]:
    """The folders of a run's dumps, the one that was written last at the end.

    Raises:
        OSError: their folder cannot be read.
    """
    root = Path(run) / DUMPS
    found = [path for path in root.iterdir() if _NAME.fullmatch(path.name)] if root.is_dir() else []
    return sorted(found, key=dump_number)


def dump_number(path: Path) -> int:
    """Where a dump stands among those of its run, counted from 1."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else 0


def read_dump(path: str | Path) -> RecorderDump:
    """Read what a dump's folder says of the run; its tensors are not read.

    Raises:
        ValueError: it is damaged, or a newer version wrote it; the message names the file.
        OSError: it cannot be read.
    """
    file = Path(path) / DUMP_FILE
    try:
        return RecorderDump.from_text(file.read_bytes().decode())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


_Record = TypeVar("_Record", RecorderDump, RecordedStep)


def _made(kind: type[_Record], body: Mapping[str, Any], **more: Any) -> _Record:
    decoders = field_decoders(kind)
    values = {name: decoders[name](value) for name, value in body.items() if name not in more and name in decoders}
    unknown = [name for name in body if name not in decoders]
    if unknown:
        raise ValueError(f"it has an unknown field {unknown[0]!r}")
    return kind(**values, **more)


def _body(step: RecordedStep) -> dict[str, object]:
    return {item.name: to_json(getattr(step, item.name)) for item in fields(step)}
