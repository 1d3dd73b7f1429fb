"""The command that runs a comparison again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from mixprec.records import ComparisonRecord

from ._folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """A command, and what it needs beside it."""

    command: str
    notes: tuple[str, ...]


def repeat(folder: RunFolder, header: ComparisonRecord) -> Repeat | None:
    """How to repeat a comparison with the recipes that its folder keeps; ``None`` for a run of one's own loop."""
    if not header.workload or not any(isinstance(record, ComparisonRecord) for record in folder.records):
        return None
    recipes = [
        f"{folder.path}/recipes/{folder.files[name]}" if name in folder.files else name for name in header.recipes
    ]
    words = ["mixprec", "compare", header.workload, "--recipes", ",".join(recipes)]
    words += ["--seeds", str(len(header.seeds)), "--steps", str(header.steps), "--baseline", header.baseline]
    threads, device = header.machine.get("threads"), header.machine.get("device")
    words += ["--threads", str(threads)] if threads else []
    words += ["--device", str(device)] if device not in (None, "cpu") else []
    return Repeat(command=shlex.join(words), notes=tuple(_notes(header)))


def _notes(header: ComparisonRecord) -> Iterable[str]:
    if header.versions:
        yield "with " + ", ".join(f"{name} {value}" for name, value in header.versions.items())
    if tuple(header.seeds) != tuple(range(len(header.seeds))):
        yield f"the seeds here were {', '.join(map(str, header.seeds))}; the command takes 0, 1, ..."
    if header.data.get("sha256"):
        yield (
            f"on data of SHA-256 {header.data['sha256'][:12]}…"
            + (f" ({header.data['name']})" if header.data.get("name") else "")
            + "; a text of one's own is named by --data"
        )
