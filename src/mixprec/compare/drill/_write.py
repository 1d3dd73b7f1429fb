"""What a drill has found, as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from mixprec.records import write_file

from ._drilled import Drilled

FILE = "drill.json"


def drilled_json(drilled: Drilled) -> str:
    """One JSON object with the fields of ``Drilled``, and whether each run and the whole passed; NaN is ``null``."""
    runs = [dataclasses.asdict(run) | {"in_time": run.in_time, "passed": run.passed} for run in drilled.runs]
    plain = dataclasses.asdict(drilled) | {"runs": runs, "passed": drilled.passed}
    return json.dumps(_finite(plain), indent=2, allow_nan=False) + "\n"


def write_drilled(folder: Path, drilled: Drilled) -> Path:
    """Write ``drill.json`` into the drill's folder.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    path = folder / FILE
    write_file(path, [drilled_json(drilled).encode()])
    return path


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
