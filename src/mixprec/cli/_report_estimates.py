"""What a run's recipes would take on other hardware, kept in its folder for the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._named_hardware import named_hardware

if TYPE_CHECKING:
    from mixprec.compare import Estimate
    from mixprec.hardware import Hardware


def write_estimates(run: Path, names: str) -> Path:
    """Estimate a step of each recipe on each device, and write ``estimates.json`` in the run folder.

    Args:
        run: the folder of a comparison.
        names: of devices, or paths of TOML files, with a comma between two.

    Returns:
        The file.

    Raises:
        ValueError: a folder without a comparison, one of commands, or a device or workload that cannot be used.
        OSError: if the file cannot be written.
    """
    from mixprec.compare import estimate, load_workload, recorded, recorded_recipes
    from mixprec.records import replace_file
    from mixprec.report.estimates import ESTIMATES, SCHEMA

    asked = [name.strip() for name in names.split(",")]
    if not all(asked):
        raise ValueError("--hardware has an empty name: expected devices, with a comma between two")
    devices = [named_hardware(name) for name in asked]
    header = recorded(run)
    if "command" in header.data:
        raise ValueError(
            f"{run} is a run of --command: a script has no workload to estimate; leave --hardware out, or give "
            "`mixprec estimate` a workload of the same model"
        )
    source = load_workload(header.workload, steps=header.steps)
    recipes = recorded_recipes(run)
    told = [_plain(device, estimate(source, recipes, device)) for device in devices]
    path = run / ESTIMATES
    replace_file(path, (json.dumps({"schema": SCHEMA, "hardware": told}, allow_nan=False) + "\n").encode())
    return path


def _plain(device: Hardware, found: tuple[Estimate, ...]) -> dict[str, Any]:
    return {
        "name": device.name,
        "title": device.title,
        "validated": device.is_validated,
        "recipes": {
            one.recipe: {
                "seconds": one.seconds,
                "peak": one.memory.peak,
                "sites": {} if one.time is None else dict(one.time.by_site()),
            }
            for one in found
        },
        "notes": list(dict.fromkeys(note for one in found for note in one.notes)),
    }
