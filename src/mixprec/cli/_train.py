"""``mixprec train``: the everyday command."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from mixprec.compare import Trained, Training
    from mixprec.monitor.export import Exporter
    from mixprec.records import TargetRow

    from ._train_view import TrainView

#: Exit statuses, beside 0 and 128 with a signal's number: the run failed; a target was missed; the guard stopped it.
FAILED, MISSED, STOPPED = 1, 3, 4


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec train` can be told."""

    recipe: str = "auto"
    """Name of a recipe or path of a TOML file. Default: what runs natively on the device."""
    targets: Path | None = None
    """What to judge the run by at its end: a TOML file, as `mixprec init --targets FILE` writes one."""
    out: Path | None = None
    """Folder for records and checkpoints. Default: runs/train-WORKLOAD-RECIPE-SEED."""
    steps: int | None = None
    """Steps to apply. Default: the workload's."""
    seed: int = 0
    """Of weights, data and roundings."""
    device: str = "cpu"
    """Where to train, e.g. `cuda:0`."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    threads: int | None = None
    """CPU threads for torch. Default: torch's own choice."""
    checkpoint_every: int | None = None
    """Save after every so many applied steps."""
    checkpoint_minutes: float = 10.0
    """Save after so many minutes since the last checkpoint; 0: not by time."""
    keep: int = 2
    """Whole checkpoints that stay."""
    evaluate_every: int | None = None
    """Evaluate after every so many applied steps. Default: after each quarter of the run."""
    guard: bool = True
    """Whether bad batches are left out, and the run goes back and gets wider casts where something is wrong."""
    dry_run: bool = False
    """The guard only tells what it would do."""
    shadow_every: int | None = None
    """After every so many applied steps, run the batch in fp32 too: what the precision alone costs now."""
    shadow_backward: bool = False
    """Shadows run backward too: the gradient against its rounding noise, which a phase may wait for."""
    on_incident: str | None = None
    """Command that is run at each incident of the guard, with its record as JSON on stdin."""
    webhook: str | None = None
    """Address that each incident's record is posted to as JSON."""


def command(workload: str, /, *, options: Annotated[Options, Parameter(name="*")] = Options()) -> int:
    """Train a workload in a recipe: progress, evaluation, checkpoints; the same command goes on where it ended.

    A run that was killed or stopped goes on bit for bit as if it had never stopped. SIGINT (Ctrl-C) and SIGTERM let
    the step end and save the state; a second one ends at once. Exit status: 0 done, 1 the run failed, 2 a mistake in
    the command, 3 a target was missed, 4 the guard stopped the run, 130 stopped by SIGINT, 143 by SIGTERM.

    For example:

    - `mixprec train gpt --recipe mxfp8 --out runs/a`
    - `mixprec train gpt --recipe mxfp4 --shadow-every 100 --on-incident "notify-send mixprec"`
    - `mixprec train my.py --recipe nvfp4 --targets targets.toml --checkpoint-every 500 --evaluate-every 1000`

    Args:
        workload: `gpt` (a small GPT on text), `resnet` (a small ResNet on digits), or a Python file with
            `def workload(seed, device)`, as `mixprec init FILE` writes one.
        options: the rest.
    """
    import torch

    from mixprec.compare import Audience, train

    from ._train_view import TrainView, tell_signal

    _check(options)
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    folder = options.out or _folder(workload, options)
    view = TrainView(Path(workload).stem, options.steps)
    try:
        trained = train(
            _training(workload, options, view), folder, audience=Audience(says=view.say, signalled=tell_signal)
        )
    finally:
        view.close()
    _show(trained, folder)
    return _status(trained)


def _check(options: Options) -> None:
    for name in ("recipe", "data", "device", "on_incident", "webhook"):
        if getattr(options, name) == "":
            raise ValueError(f"--{name.replace('_', '-')} got an empty text: leave it out, or say what it is to be")
    for name in ("threads", "checkpoint_every", "evaluate_every", "keep", "shadow_every"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {value}")
    if options.shadow_backward and options.shadow_every is None:
        raise ValueError("--shadow-backward says how shadows are run, and there are none: give --shadow-every N too")
    if options.dry_run and not options.guard:
        raise ValueError("--dry-run tells what the guard would do, and --no-guard leaves it out: give one of them")
    if not 0 <= options.checkpoint_minutes < float("inf"):
        raise ValueError(f"--checkpoint-minutes must be 0 or more, got {options.checkpoint_minutes}; 0: not by time")
    if not 0 <= options.seed < 2**63:
        raise ValueError(f"--seed must be 0 or more, got {options.seed}")


def _training(workload: str, options: Options, view: TrainView) -> Training:
    from mixprec.compare import Training, load_workload
    from mixprec.guard import Guard
    from mixprec.specs import load_recipe

    return Training(
        source=load_workload(workload, steps=options.steps, data=options.data),
        recipe=load_recipe(options.recipe),
        seed=options.seed,
        device=options.device,
        checkpoint_every=options.checkpoint_every,
        checkpoint_minutes=options.checkpoint_minutes or None,
        evaluate_every=options.evaluate_every,
        keep=options.keep,
        targets=_targets(options.targets),
        exporters=(view, *_hooks(options)),
        guard=Guard(dry_run=options.dry_run) if options.guard else None,
        shadow_every=options.shadow_every,
        shadow_backward=options.shadow_backward,
    )


def _hooks(options: Options) -> list[Exporter]:
    from mixprec.monitor.export import IncidentCommand, IncidentWebhook

    hooks: list[Exporter] = [IncidentCommand(options.on_incident)] if options.on_incident else []
    return [*hooks, IncidentWebhook(options.webhook)] if options.webhook else hooks


def _targets(file: Path | None) -> tuple[TargetRow, ...]:
    from mixprec.compare import target_rows
    from mixprec.planner import Targets

    return () if file is None else target_rows(Targets.load(file))


def _folder(workload: str, options: Options) -> Path:
    """The same for the same command, so that it goes on."""
    return Path("runs", f"train-{Path(workload).stem}-{Path(options.recipe).stem}-{options.seed}")


def _show(trained: Trained, folder: Path) -> None:
    """The outcome, on stdout; how to go on, on stderr."""
    skipped = f", {trained.skipped} skipped" if trained.skipped else ""
    word = "was done before" if trained.was_done else trained.outcome
    print(f"{word}: {trained.applied} of {trained.steps} steps{skipped}")
    for forward, metrics in trained.metrics.items():
        where = "recipe's forward" if forward == "recipe" else "fp32"
        print(
            f"evaluation, {where}: "
            + ", ".join(f"{name} {value:.6g}" for name, value in metrics.items() if "/" not in name)
        )
    for verdict in trained.verdicts:
        measured = "" if verdict.measured is None else f" ({verdict.measured:.4g}, allowed {verdict.limit:.4g})"
        print(f"target {verdict.target}: {verdict.outcome}{measured}" + f"; {verdict.reason}" * bool(verdict.reason))
    name = shlex.quote(str(folder))
    for incident in trained.incidents:
        site = f" at {incident.site}" if incident.site else ""
        print(
            f"incident {incident.number}: step {incident.step}: {incident.trigger}{site}: {incident.action}; "
            f"{incident.outcome} (mixprec doctor {name} --incident {incident.number})"
        )
    print(f"run: {name}" + (f"; checkpoint: {trained.checkpoint}" if trained.checkpoint else ""))
    if trained.reason:
        print(f"mixprec: {trained.reason}", file=sys.stderr)
    if trained.outcome in ("failed", "interrupted", "stopped"):
        first = "mend what led to it first; then " if trained.outcome == "stopped" else ""
        print(f"mixprec: {first}the same command goes on from the newest checkpoint", file=sys.stderr)


def _status(trained: Trained) -> int:
    if trained.outcome == "interrupted":
        return 128 + trained.signal
    if trained.outcome == "stopped":
        return STOPPED
    missed = MISSED if any(verdict.outcome == "missed" for verdict in trained.verdicts) else 0
    return missed if trained.outcome == "done" else FAILED
