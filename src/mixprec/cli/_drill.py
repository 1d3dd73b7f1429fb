"""``mixprec drill``: the way back, rehearsed."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from mixprec.compare.drill import Drill

#: Exit status where a fault was not seen in time or not recovered from, or an alarm was false.
NOT_PASSED = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec drill` can be told."""

    recipe: str = "auto"
    """Name of a recipe or path of a TOML file. Default: what runs natively on the device."""
    steps: int | None = None
    """Steps of each run, at least 100. Default: 200, or the workload's where they are fewer."""
    seeds: int = 3
    """How many seeds: 0, 1, ...; at least 3, for seed noise is told from the runs without a fault."""
    fault: Annotated[tuple[str, ...], Parameter(negative=())] = ()
    """A fault to plant: learning-rate, poisoned-batches, bit-flip, inf-moment, fp4-site, frozen-scale, outlier.
    Repeat it for several. Default: all."""
    out: Path | None = None
    """New folder for the records of all runs and drill.json. Default: runs/drill-WORKLOAD-DATE-TIME."""
    device: str = "cpu"
    """Where to train, e.g. `cuda:0`."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    threads: int | None = None
    """CPU threads for torch. Default: torch's own choice."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Print what was found as JSON."""


def command(workload: str, /, *, options: Annotated[Options, Parameter(name="*")] = Options()) -> int:
    """Plant faults into short runs of a workload, and show whether the guard sees them in time and recovers.

    For each seed one run without a fault, under guard; for each fault and seed one run under guard and one without.
    Exit status: 0 where every fault was seen within its limit and recovered from to within seed noise, none was made
    worse, and no alarm was false; 1 where not; 2 for a mistake in the command.

    For example:

    - `mixprec drill my.py --recipe nvfp4`
    - `mixprec drill gpt --recipe mxfp8 --fault bit-flip --fault inf-moment --seeds 5 --json`

    Args:
        workload: `gpt` (a small GPT on text), `resnet` (a small ResNet on digits), or a Python file with
            `def workload(seed, device)`, as `mixprec init FILE` writes one.
        options: the rest.
    """
    # The profiler that measures memory writes to stderr at each use unless told not to, before torch loads.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import torch

    from mixprec.compare.drill import drilled_json, run_drill

    from ._drill_table import print_drilled

    _check(options)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    folder = options.out or Path("runs", f"drill-{Path(workload).stem}-{time.strftime('%Y%m%d-%H%M%S')}")
    drilled = run_drill(_asked(workload, options), folder)
    if options.json:
        print(drilled_json(drilled), end="")
    else:
        print_drilled(drilled, folder)
    return 0 if drilled.passed else NOT_PASSED


def _check(options: Options) -> None:
    for name in ("recipe", "data", "device"):
        if getattr(options, name) == "":
            raise ValueError(f"--{name} got an empty text: leave it out, or say what it is to be")
    if options.threads is not None and options.threads < 1:
        raise ValueError(f"--threads must be at least 1, got {options.threads}")
    if options.seeds < 3:
        raise ValueError(f"--seeds must be at least 3, got {options.seeds}: seed noise is told from them")


def _asked(workload: str, options: Options) -> Drill:
    from mixprec.compare.drill import Drill, short_workload
    from mixprec.specs import load_recipe

    return Drill(
        source=short_workload(workload, steps=options.steps, data=options.data, device=options.device),
        recipe=load_recipe(options.recipe),
        seeds=tuple(range(options.seeds)),
        faults=options.fault,
        device=options.device,
        says=_say,
    )


def _say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)
