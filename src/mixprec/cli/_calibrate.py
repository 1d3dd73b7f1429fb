"""``mixprec calibrate``: the machine at hand, as hardware."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ._output_file import OutputFile


def command(
    *,
    out: Path = Path("this-machine.toml"),
    name: str = "this-machine",
    threads: int | None = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Measure this machine's processor in about a minute, for `mixprec estimate --hardware FILE`.

    Products of matrices, convolutions, operators, casts and whole small steps are timed with the threads that training
    will have; let nothing else run meanwhile. Predictions from the file are validated on this machine, with as many
    threads and this version of torch, and nowhere else.

    For example: `mixprec calibrate --out this-machine.toml`

    Args:
        out: where to write the file.
        name: of the hardware in it.
        threads: CPU threads for torch. Default: torch's own choice.
        quick: few sizes, in seconds: to see that it works, not to predict by.
    """
    import torch

    from mixprec.planner.calibrate import calibrate, dump_hardware
    from mixprec.training import prepare

    if threads is not None:
        if threads < 1:
            raise ValueError(f"--threads must be at least 1, got {threads}")
        torch.set_num_threads(threads)
    with OutputFile(out) as file:  # before a minute is spent
        measured = calibrate(
            name=name,
            quick=quick,
            report=lambda what: print(f"measuring {what}", file=sys.stderr),
            stepper=lambda model, optimizer: prepare(model, optimizer, "fp32").step,
        )
        file.write(dump_hardware(measured))
    print(f"wrote {out}: {measured.title}, {torch.get_num_threads()} threads")
    print(f"`mixprec estimate WORKLOAD --hardware {out}` predicts a step by it")
    return 0
