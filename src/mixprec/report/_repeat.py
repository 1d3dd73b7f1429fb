"""The command that runs a comparison again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from mixprec.records import ComparisonRecord

from ._folder import RunFolder

#: What the built-in `gpt` trains on unless it is told another text.
_OWN_TEXT = "pydoc_data.topics"
_METRIC = "metric "


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A command, and what it needs beside it."""

    command: str
    notes: tuple[str, ...]


def repeat(folder: RunFolder, header: ComparisonRecord) -> Repeat | None:
    """How to repeat a comparison with the recipes that its folder keeps; ``None`` for a run of one's own loop."""
    if not header.workload or not any(isinstance(record, ComparisonRecord) for record in folder.records):
        return None
    words = ["mixprec", "compare", *(_command(header) if "command" in header.data else _workload(folder, header))]
    if header.max_pairs is None:
        words += ["--seeds", str(len(header.seeds))]
    else:
        words += ["--max-pairs", str(header.max_pairs)]
    words += ["--baseline", header.baseline]
    words += ["--targets", str(folder.path / "targets.toml")] if header.targets else []
    jobs = header.machine.get("jobs", 1)
    words += ["--jobs", str(jobs)] if jobs != 1 else []
    return Repeat(command=shlex.join(words), notes=tuple(_notes(folder, header)))


def _command(header: ComparisonRecord) -> Iterable[str]:
    """A command, with the files of its metrics and what stands for its recipes."""
    yield from ("--command", str(header.data["command"]))
    for key, file in header.data.items():
        if key.startswith(_METRIC):
            yield from ("--metric", f"{file}={key.removeprefix(_METRIC)}")
    yield from ("--recipes", ",".join(header.recipes))
    if "steps" in header.data:
        yield from ("--steps", str(header.data["steps"]))


def _workload(folder: RunFolder, header: ComparisonRecord) -> Iterable[str]:
    recipes = [
        f"{folder.path}/recipes/{folder.files[name]}" if name in folder.files else name for name in header.recipes
    ]
    yield from (header.workload, "--recipes", ",".join(recipes), "--steps", str(header.steps))
    if header.workload == "gpt" and header.data.get("name", _OWN_TEXT) != _OWN_TEXT:
        yield from ("--data", str(header.data["name"]))
    threads, device = header.machine.get("threads"), header.machine.get("device")
    if threads:
        yield from ("--threads", str(threads))
    if device not in (None, "cpu"):
        yield from ("--device", str(device))


def _notes(folder: RunFolder, header: ComparisonRecord) -> Iterable[str]:
    if header.versions:
        yield "with " + ", ".join(f"{name} {value}" for name, value in header.versions.items())
    if header.targets and not (folder.path / "targets.toml").is_file():
        yield "the folder does not hold its targets.toml, which older versions did not write"
    if header.max_pairs is None and tuple(header.seeds) != tuple(range(len(header.seeds))):
        yield f"the seeds here were {', '.join(map(str, header.seeds))}; the command takes 0, 1, ..."
    if header.data.get("sha256"):
        yield (
            f"on data of SHA-256 {header.data['sha256'][:12]}…"
            + (f" ({header.data['name']})" if header.data.get("name") else "")
            + "; a workload's own --data is to be named again"
        )
