"""``mixprec check``: what will go wrong, before training."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from mixprec.monitor import Finding, Preflight

#: Exit status where a fault was found.
FAULT = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec check` can be told."""

    recipe: str = "auto"
    """Name of a recipe or path of a TOML file. Default: what runs natively on the device."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    device: str = "cpu"
    """Where to run the step, e.g. `cuda:0`."""
    seed: int = 0
    """Of the weights and the data."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Print the findings as JSON."""


def command(workload: str, /, *, options: Annotated[Options, Parameter(name="*")] = Options()) -> int:
    """Run one training step watched, and list what will go wrong in this recipe, with site, evidence and remedy.

    Nothing is trained. The exit status is 1 where a fault was found (numbers will be wrong), else 0.

    For example:

    - `mixprec check my.py --recipe fp16`
    - `mixprec check gpt --recipe nvfp4 --json`

    Args:
        workload: `gpt` (a small GPT on text), `resnet` (a small ResNet on digits), or a Python file with
            `def workload(seed, device)`, as `mixprec init FILE` writes one.
        options: the rest.
    """
    for name in ("recipe", "data", "device"):
        if getattr(options, name) == "":
            raise ValueError(f"--{name} got an empty text: leave it out, or say what it is to be")
    from mixprec.compare import check_recipe, load_workload
    from mixprec.specs import load_recipe

    recipe = load_recipe(options.recipe)
    source = load_workload(workload, data=options.data)
    found = check_recipe(source, recipe, seed=options.seed, device=options.device)
    print(json.dumps(_plain(found, source.name), indent=2, allow_nan=False) if options.json else found)
    return FAULT if found.faults else 0


def _plain(found: Preflight, workload: str) -> dict[str, Any]:
    """The findings as JSON's values."""
    return {
        "workload": workload,
        "recipe": found.recipe,
        "operations": found.operations,
        "findings": [_finding(finding) for finding in found],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "name": finding.name,
        "site": finding.site,
        "message": finding.message,
        "evidence": {name: _number(value) for name, value in finding.evidence.items()},
        "threshold": finding.threshold,
        "remedy": finding.remedy,
        "rule": finding.rule,
    }


def _number(value: float | str) -> float | str:
    """JSON has no inf and no NaN: they become texts."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)
