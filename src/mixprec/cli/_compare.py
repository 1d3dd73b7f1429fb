"""``mixprec compare``: the main job."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mixprec._quiet import be_quiet

from ._asked_recipes import asked_recipes
from ._processes import DEFAULT_SEEDS, Processes, asked_jobs, black_box, check_folder_and_seeds

if TYPE_CHECKING:
    from mixprec.compare import BlackBox, Comparison
    from mixprec.records import ComparisonRecord, PairPlan, TargetRow

DEFAULT_RECIPES = "fp32,bf16,mxfp8,nvfp4"
_PROCESSES = Processes()


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec compare` can be told."""

    recipes: str | None = None
    """Names of recipes or paths of TOML files, comma-separated. Default: fp32,bf16,mxfp8,nvfp4."""
    seeds: int | None = None
    """How many seeds: 0, 1, ... Each has its own initial weights and data order. Default: 3."""
    max_pairs: int | None = None
    """Instead of --seeds: add seeds until each gap is resolved against its tolerance, up to so many (3 to 100)."""
    tolerance: float | None = None
    """Largest gap in loss to the baseline that is no loss; what targets call quality.loss."""
    targets: Path | None = None
    """What to judge recipes by: a TOML file, as `mixprec init --targets FILE` writes one."""
    steps: int | None = None
    """Training steps of each run. Default: the workload's."""
    baseline: str | None = None
    """The recipe that gaps and times are taken to. Default: the first."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    device: str = "cpu"
    """Where to train, e.g. `cuda:0`."""
    threads: int | None = None
    """CPU threads for torch. Default: torch's own choice."""
    out: Path | None = None
    """Folder for records and report. Default: runs/compare-WORKLOAD-DATE-TIME."""
    resume: Path | None = None
    """Go on in this folder of an earlier run: what ended there is kept. Recipes and seeds may be added."""
    one_by_one: Annotated[bool, Parameter(negative=())] = False
    """Train a seed's recipes one after another, not in turn: less memory, less fair times."""


def command(
    workload: str | None = None,
    /,
    *,
    options: Annotated[Options, Parameter(name="*")] = Options(),
    processes: Annotated[Processes, Parameter(name="*")] = _PROCESSES,
) -> int:
    """Train a workload under several recipes, side by side, and show what each costs and loses.

    Every recipe starts from the same weights and sees the same data. Ends with a table and an HTML report; Ctrl-C
    keeps what was measured. The exit status is 1 where a run failed or a target was missed, 3 where one is not
    resolved, else 0.

    For example:

    - `mixprec compare gpt --recipes fp32,bf16,mxfp8,nvfp4 --seeds 3`
    - `mixprec compare gpt --data book.txt --steps 200`
    - `mixprec compare my.py --recipes fp32,mine.toml`
    - `mixprec compare my.py --recipes fp32,mxfp8 --tolerance 0.01 --max-pairs 12`
    - `mixprec compare my.py --recipes fp32,mxfp8 --targets targets.toml --seeds 5`
    - `mixprec compare gpt --recipes fp32,nvfp4 --sweep wgrad.grad_output.rounding=nearest,stochastic --jobs auto`
    - `mixprec compare --command "python train.py --seed {seed} --recipe {recipe} --out {run}" --metric
      "{run}/log.jsonl:val_loss" --recipes base,mine`

    Args:
        workload: `gpt` (a small GPT on text), `resnet` (a small ResNet on digits), or a Python file with
            `def workload(seed, device)`, as `mixprec init FILE` writes one. Left out with `--command`.
        options: the rest.
        processes: commands, sweeps, and how many runs go at once.
    """
    be_quiet()
    import torch

    if options.threads is not None:
        if options.threads < 1:
            raise ValueError(f"--threads must be at least 1, got {options.threads}")
        torch.set_num_threads(options.threads)
    from ._run import run_and_show

    resume, jobs = options.resume is not None, asked_jobs(processes.jobs)
    box = black_box(workload, options, processes)
    if box is not None:
        box = _judged(box, options)
        again = shlex.join(["mixprec", "compare", "--jobs", processes.jobs, "--resume"])
        return run_and_show(box, _folder(box.program, options), resume=resume, again=again, jobs=jobs)
    if workload is None:
        raise ValueError("expected a workload (`gpt`, `resnet` or a Python file), or --command and --metric")
    comparison = _comparison(workload, options, processes.sweep)
    again = _again(workload, options, processes.jobs)
    return run_and_show(comparison, _folder(workload, options), resume=resume, again=again, jobs=jobs)


def _judged(box: BlackBox, options: Options) -> BlackBox:
    """A command's comparison with the plan and the targets that were asked for."""
    from mixprec.compare import recorded

    earlier = None if options.resume is None else recorded(options.resume)
    plan = _plan(options, earlier)
    seeds = box.seeds if plan is None else tuple(range(plan.max_pairs))
    return replace(box, seeds=seeds, plan=plan, targets=_targets(options, earlier))


def _comparison(workload: str, options: Options, sweeps: tuple[str, ...]) -> Comparison:
    """Build what was asked for; with ``--resume``, what is not asked for is as it was."""
    from mixprec.compare import Comparison, load_workload, recorded

    for name in ("recipes", "baseline", "data", "device"):
        if getattr(options, name) == "":
            raise ValueError(f"--{name} got an empty text: leave it out, or say what it is to be")
    check_folder_and_seeds(options)
    earlier = None if options.resume is None else recorded(options.resume)
    plan = _plan(options, earlier)
    names = options.recipes or (None if earlier else DEFAULT_RECIPES)
    recipes = asked_recipes(names, options.resume, sweeps=sweeps, baseline=options.baseline or "")
    seeds = range(DEFAULT_SEEDS if options.seeds is None else options.seeds)
    if plan is not None:
        seeds = range(plan.max_pairs)
    elif earlier is not None and options.seeds is None:
        seeds = earlier.seeds
    steps = earlier.steps if earlier is not None and options.steps is None else options.steps
    return Comparison(
        source=load_workload(workload, steps=steps, data=options.data),
        recipes=recipes,
        seeds=tuple(seeds),
        baseline=options.baseline or (earlier.baseline if earlier else ""),
        device=options.device,
        one_by_one=options.one_by_one,
        plan=plan,
        targets=_targets(options, earlier),
    )


def _plan(options: Options, earlier: ComparisonRecord | None) -> PairPlan | None:
    """The plan of pairs that was asked for, or that an earlier run began with."""
    from mixprec.compare import plan_pairs

    if earlier is not None and options.max_pairs not in (None, earlier.max_pairs):
        had = "no plan" if earlier.max_pairs is None else f"at most {earlier.max_pairs}"
        raise ValueError(
            f"--max-pairs {options.max_pairs}: {options.resume} was begun with {had}; pairs added after the gap was "
            "seen would make its interval too narrow: start anew with another --out"
        )
    max_pairs = options.max_pairs if earlier is None else earlier.max_pairs
    if max_pairs is None:
        return None
    if options.seeds is not None:
        raise ValueError(f"--seeds {options.seeds} fixes how many pairs there are, --max-pairs adds them: give one")
    return plan_pairs(max_pairs)


def _targets(options: Options, earlier: ComparisonRecord | None) -> tuple[TargetRow, ...]:
    """What recipes are judged by; with ``--resume``, as before unless something else is asked for."""
    from mixprec.compare import target_rows
    from mixprec.planner import QualityTarget, Targets

    if options.tolerance is None and options.targets is None:
        return () if earlier is None else earlier.targets
    rows = () if options.targets is None else target_rows(Targets.load(options.targets))
    if options.tolerance is None:
        return rows
    if any(row["name"] == "quality.loss" for row in rows):
        raise ValueError(f"--tolerance and quality.loss in {options.targets} are the same target: leave one out")
    return (*rows, *target_rows(Targets(quality={"loss": QualityTarget(absolute=options.tolerance)})))


def _folder(workload: str, options: Options) -> Path:
    if options.resume is not None or options.out is not None:
        return options.resume or options.out or Path()
    return Path("runs", f"compare-{Path(workload).stem}-{time.strftime('%Y%m%d-%H%M%S')}")


def _again(workload: str, options: Options, jobs: str) -> str:
    """The command that would go on, without its folder: what the records do not hold is repeated."""
    words = ["mixprec", "compare", workload]
    for name, value in (("--data", options.data), ("--threads", options.threads)):
        words += [name, str(value)] if value is not None else []
    words += ["--device", options.device] if options.device != "cpu" else []
    words += ["--one-by-one"] if options.one_by_one else []
    words += ["--jobs", jobs] if jobs != "1" else []
    return shlex.join([*words, "--resume"])
