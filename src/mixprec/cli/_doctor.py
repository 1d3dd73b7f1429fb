"""``mixprec doctor``: what mixprec finds on this machine, or what was wrong with a run."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from mixprec.monitor.doctor import Diagnosis

FOUND = 1


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec doctor RUN` can be told."""

    workload: str | None = None
    """The workload that was trained (`gpt`, `resnet`, or a Python file): replays the step at fault, watched."""
    step: int | None = None
    """The step to replay. Default: the one of the recorder's last dump, or the first that was not finite."""
    recipe: str | None = None
    """Of a comparison: whose run to replay, by default the first that has such a step; whose incident to tell."""
    seed: int | None = None
    """Of a comparison: the seed, likewise."""
    data: str | None = None
    """For a workload that takes it, as for `mixprec compare`."""
    device: str = "cpu"
    """Where to replay, e.g. `cuda:0`."""
    max_steps: int = 1000
    """Steps that a replay may run to come to its own, where no checkpoint lies nearer."""
    top: int = 12
    """How many findings, and incidents, are shown; 0 shows all. JSON holds all."""
    incident: int | None = None
    """Print the post-mortem of the guard's incident of this number, a page of Markdown, instead of the diagnosis."""
    out: Path | None = None
    """With `--incident`: the file to write it to. Default: standard output."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Print the diagnosis as one JSON object."""


def command(run: Path | None = None, /, *, options: Annotated[Options, Parameter(name="*")] = Options()) -> int:
    """Say what was wrong with a run and what to do; without a run, what mixprec finds on this machine.

    Reads what a run left in its folder, also one that was killed: findings in order of weight, each with its evidence,
    its threshold and a remedy, as TOML where it is one of the recipe's; then what a guard saw and did. Exit status: 0
    where no fault was found, 1 where one was, or an incident is open or stopped the run, 2 for a folder that is no run.

    For example:

    - `mixprec doctor`
    - `mixprec doctor runs/a`
    - `mixprec doctor runs/a --workload my.py --step 120`
    - `mixprec doctor runs/a --incident 2 --out incident-2.md`
    - `mixprec doctor runs/a --json`

    Args:
        run: the folder of a training (`run=`) or of a comparison.
        options: the rest.
    """
    if run is None:
        if options != Options():
            raise ValueError("mixprec doctor got options and no run: give the run folder first, e.g. runs/a")
        return _machine()
    _check(options)
    return _diagnose(run, options) if options.incident is None else _tell_incident(run, options.incident, options)


def _tell_incident(run: Path, number: int, options: Options) -> int:
    from mixprec.monitor.doctor.post_mortem import post_mortem

    from ._output_file import STDOUT, OutputFile

    with OutputFile(options.out or STDOUT) as output:
        output.write(post_mortem(run, number, recipe=options.recipe, seed=options.seed).to_markdown())
    return 0


def _diagnose(run: Path, options: Options) -> int:
    from mixprec.monitor.doctor import diagnose

    diagnosis = diagnose(run)
    if options.json:
        print(diagnosis.to_json(), end="")
    else:
        from ._diagnosis_text import print_diagnosis

        print_diagnosis(diagnosis, top=options.top, replays=options.workload is not None)
    replayed = options.workload is not None and _replay(diagnosis, options)
    return FOUND if diagnosis.faults or replayed else 0


def _check(options: Options) -> None:
    if options.top < 0:
        raise ValueError(f"--top must be at least 0, got {options.top}; 0 shows all findings")
    if options.step is not None and options.step < 0:
        raise ValueError(f"--step must be at least 0, got {options.step}")
    if options.max_steps < 0:
        raise ValueError(f"--max-steps must be at least 0, got {options.max_steps}")
    if options.incident is not None:
        _check_incident(options)
    elif options.out is not None:
        raise ValueError("--out takes the post-mortem of an incident: give --incident K too")
    elif options.workload is None:
        for name in ("step", "recipe", "seed", "data"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} is about replaying a step: give --workload FILE too")
    elif options.json:
        raise ValueError("--json prints the diagnosis alone: leave --workload out, or --json")


def _check_incident(options: Options) -> None:
    given = [name for name in ("workload", "step", "data") if getattr(options, name) is not None]
    given += ["json"] if options.json else []
    if given:
        raise ValueError(f"--incident prints a page about an incident alone: leave --{given[0]} out, or --incident")


def _replay(diagnosis: Diagnosis, options: Options) -> bool:
    """Replay a step; whether it shows a fault."""
    from mixprec.compare import Replay, load_workload, replay

    from ._diagnosis_text import print_replay

    asked = Replay(
        step=options.step,
        recipe=options.recipe,
        seed=options.seed,
        device=options.device,
        max_steps=options.max_steps,
    )
    replayed = replay(load_workload(options.workload or "", data=options.data), diagnosis.path, asked)
    print_replay(replayed)
    return replayed.is_bad or any(finding.severity == "fault" for finding in replayed.findings)


def _machine() -> int:
    """Versions, compiled kernels, what runs natively."""
    import torch

    from mixprec.compare import machine_facts, package_versions

    for name, version in package_versions().items():
        print(f"{name + ':':<10}{version}")
    facts = machine_facts("cpu")
    print(f"{'system:':<10}{platform.platform()}")
    print(f"{'machine:':<10}{facts['cpu']}, {facts['cores']} cores, torch uses {facts['threads']} threads")
    print(f"{'kernels:':<10}{_kernels()}")
    for device in ("cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))):
        print(f"{device + ':':<10}{_native(device)}")
    return 0


def _kernels() -> str:
    """Whether the compiled kernels load, and what they use of this CPU."""
    try:
        from mixprec.kernels.cpu import level_names
    except ImportError as error:
        return (
            f"the compiled kernels cannot be loaded ({error}); the slower reference backend serves, with the same "
            "results. To get them: install a C++17 compiler, then mixprec again"
        )
    return f"compiled, at level {level_names()[-1]} (this CPU and build have {', '.join(level_names())})"


def _native(device: str) -> str:
    import torch

    from mixprec.kernels import default_backend
    from mixprec.nn import native_here

    where = torch.device(device)
    name = ""
    if where.type == "cuda":
        name = f"{torch.cuda.get_device_name(where)}, rounded by the {default_backend(where.type).name} kernels: "
    native = ", ".join(native_here(where))
    return f"{name}native: {native or 'fp32 only'}; every other format is emulated (exact numbers, no gain in speed)"
