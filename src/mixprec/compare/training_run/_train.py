"""One training run from its start or its newest checkpoint to its end."""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path

from mixprec.monitor import load_random_states, random_states
from mixprec.records import TargetRow, write_begun
from mixprec.training import CheckpointNotWritten, RunStopped

from .._comparison import check_device
from .._metric_goal import with_goals
from .._user_code import describe
from .._workload_checks import check_workload
from ._begun import begun_before, begun_now, check_same
from ._conclusion import conclude, is_done
from ._loop import Loop, NotTraining
from ._stop_signals import StopSignals
from ._training import Audience, Trained, Training


def train(training: Training, out: str | Path, *, audience: Audience | None = None) -> Trained:
    """Train a workload in a recipe, with records, evaluations and checkpoints, and go on where an earlier start ended.

    The same call goes on with the folder's run, bit for bit as if it had never stopped; a call with another recipe,
    seed, number of steps or data is refused. A run that was done stays as it is. SIGINT and SIGTERM let the step end
    and save the state; a second one ends the process at once. Random states are given back as they were.

    Args:
        training: what is to be done.
        out: the run folder, new or of this run; ``mixprec watch``, ``doctor`` and ``report`` read it.
        audience: hears of it.

    Returns:
        How it ended. A guard without a rung left ends the run as ``"stopped"``, an exception in the workload one that
        has begun as ``"failed"``; both are in its records.

    Raises:
        ValueError: a workload, recipe or folder that cannot be used, before anything is trained.
        OSError: the folder cannot be written.

    Example:
        >>> import tempfile
        >>> from mixprec.compare import load_workload
        >>> from mixprec.specs import load_recipe
        >>> training = Training(source=load_workload("resnet", steps=2), recipe=load_recipe("bf16"))
        >>> out = tempfile.mkdtemp()
        >>> train(training, out).outcome, train(training, out).was_done
        ('done', True)
    """
    folder, heard = Path(out), audience or Audience()
    before = begun_before(folder)
    check_device(training.device)
    states = random_states()
    try:
        workload = training.source.build(training.seed, training.device)
        targets = with_goals(training.targets, workload.metrics)
        now, changed = begun_now(training, workload), ""
        if before is None:
            check_workload(workload, training.source.name, training.source.file)
        else:
            changed = check_same(folder, before, now)
        if is_done(folder, training.seed):
            return replace(conclude(folder, "done", steps=workload.steps, targets=targets), was_done=True)
        loop = Loop(training, workload, folder, heard)
        try:
            if now != before:
                write_begun(folder, now)
            with StopSignals(heard.signalled) as stop:
                heard.says(str(loop.resume()))
                if changed:
                    loop.tell_event("changed", changed)
                    heard.says(changed)
                return _ended(training, loop, folder, targets, stop)
        finally:
            loop.close()
    finally:
        load_random_states(states)


def _ended(training: Training, loop: Loop, folder: Path, targets: tuple[TargetRow, ...], stop: StopSignals) -> Trained:
    """Run the loop, and write and tell how it ended."""
    reason = ""
    try:
        loop.run(stop)
    except RunStopped as error:
        loop.save_what_is_left()
        loop.end("diverged", str(error))
        return replace(conclude(folder, "stopped", steps=loop.steps, targets=targets), reason=str(error))
    except (CheckpointNotWritten, NotTraining) as error:
        reason = str(error)
    except Exception as error:
        loop.tell_event("exception", "".join(traceback.format_exception(error)))
        reason = f"at step {loop.session.applied + 1}: {describe(error, training.source.file)}"
    if reason:
        loop.end("failed", reason)
        return replace(conclude(folder, "failed", steps=loop.steps, targets=targets), reason=reason)
    if stop.came is not None:
        reason = f"stopped by {stop.came.name}; the state is saved"
        loop.end("interrupted", reason)
        ended = conclude(folder, "interrupted", steps=loop.steps, targets=targets)
        return replace(ended, reason=reason, signal=int(stop.came))
    loop.end("done")
    return conclude(folder, "done", steps=loop.steps, targets=targets)
