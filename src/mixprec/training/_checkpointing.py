"""Saving a session to disk and continuing from it: what is checked, in which order, and what is told."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist

from ._checkpoint_parts import Owners, gather_parts, load_full_values, load_parts
from ._model_state import check_model_values
from ._plain_weights import plain_weights
from ._result import Event
from ._resumed import Resumed
from ._run_folder import RunFolder
from .checkpoint import (
    CheckpointNotWritten,
    changed_facts,
    find_checkpoints,
    machine_facts,
    read_checkpoint,
    write_checkpoint,
)
from .guarding import StateMeter

_FOLDER = "checkpoints"
_RESTORED = ("model", "optimizers", "session", "random states")


def save_session(
    owners: Owners, folder: str | Path | None, run: RunFolder | None, *, step: int, keep: int | None
) -> Path:
    """Write a checkpoint; the records of the run are on the disk before it is.

    Raises:
        ValueError: no folder; several processes; gradients that no step has used; another process is saving there.
        CheckpointNotWritten: the disk is full, or the like; a weight or a moment is not finite.
    """
    root = _root(folder, run, "save")
    _refuse_ranks("save")
    _refuse_gradients(owners)
    _refuse_not_finite(owners, root)
    parts = gather_parts(owners)
    if run is not None:
        _sync(run)
    return write_checkpoint(root, step, parts, keep=keep)


def _sync(run: RunFolder) -> None:
    try:
        run.sync()
    except OSError as error:
        raise CheckpointNotWritten(
            f"save: the records of {run.path} could not be brought to the disk ({error}); no checkpoint may be ahead "
            "of them; those before stand"
        ) from error


def resume_session(
    owners: Owners, folder: str | Path | None, run: RunFolder | None, *, convert: bool
) -> tuple[Resumed, list[Event]]:
    """Continue from the newest whole checkpoint, from a given one, or from a file of weights.

    Raises:
        FileNotFoundError: a folder that is given holds none.
        CheckpointDamaged: none is whole.
        ValueError: it is another run's; several processes.
    """
    _refuse_ranks("resume")
    root = _root(folder, run, "resume")
    if folder is None and not find_checkpoints(root):
        return _begin(owners.session.applied)
    if root.is_file():
        return _load_weights(owners, root, convert=convert)
    checkpoint = read_checkpoint(root)
    if run is not None:
        run.refuse_ahead(checkpoint.manifest.step)
    converted, unrestored = load_parts(checkpoint.parts, owners, convert=convert)
    resumed = Resumed(
        path=checkpoint.path,
        step=checkpoint.manifest.step,
        restored=(*_RESTORED, *owners.extra),
        passed_over=checkpoint.damaged,
        converted=tuple(converted),
        not_restored=tuple(unrestored),
        differences=tuple(changed_facts(checkpoint.manifest.facts, machine_facts())),
    )
    return resumed, _events(resumed)


def no_position_event(step: int) -> Event:
    """What is told where nothing knows the position in the data."""
    message = (
        "the position in the data is not saved: a resumed run may see other batches than this one would; give "
        "save(extra={'data': loader}) and resume(extra=...) a loader with state_dict() and load_state_dict()"
    )
    return Event(step=step, name="data position", message=message)


def load_plain_weights(owners: Owners, source: Path | Mapping[str, Any]) -> None:
    """Take over a model's weights alone; moments, scales and counters stay as they are.

    Raises:
        ValueError: they are another model's.
    """
    own = owners.model.state_dict()
    values = plain_weights(source, own)
    check_model_values(owners.model, values, converts=True)
    owners.model.load_state_dict(values)
    load_full_values(owners, values, {})


def _load_weights(owners: Owners, file: Path, *, convert: bool) -> tuple[Resumed, list[Event]]:
    if not convert:
        raise ValueError(
            f"resume: {file} is a file of weights, not a checkpoint's folder: resume(..., convert=True) takes the "
            "weights, and moments, loss scales and counters stay as they are"
        )
    load_plain_weights(owners, file)
    step: int = owners.session.applied
    told = f"weights of {file}; moments, loss scales and counters stay as they are"
    resumed = Resumed(path=file, step=step, restored=("model",), converted=(told,))
    return resumed, _events(resumed)


def _begin(step: int) -> tuple[Resumed, list[Event]]:
    event = Event(step=step, name="nothing to resume", message=f"the run begins at step {step}")
    return Resumed(path=None, step=step, restored=()), [event]


def _events(resumed: Resumed) -> list[Event]:
    told = [("checkpoint damaged", f"passed over: {text}") for text in resumed.passed_over]
    if resumed.differences:
        differing = ", ".join(resumed.differences)
        told.append(("versions", f"last bits may differ from those of the earlier part: {differing}"))
    told += [("converted", text) for text in resumed.converted]
    told += [("not restored", text) for text in resumed.not_restored]
    return [Event(step=resumed.step, name=name, message=message) for name, message in told]


def _root(folder: str | Path | None, run: RunFolder | None, what: str) -> Path:
    if folder is not None:
        return Path(folder)
    if run is None:
        raise ValueError(f"{what}: no folder: give {what}('checkpoints'), or prepare(..., run='runs/a')")
    return run.path / _FOLDER


def _refuse_ranks(what: str) -> None:
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise ValueError(
            f"{what}: this process is one of {dist.get_world_size()}, each with random states and shards of its own: "
            "use torch.distributed.checkpoint with {'model': model, 'optimizer': optimizer, 'session': session}"
        )


def _refuse_gradients(owners: Owners) -> None:
    """A checkpoint holds no gradients: those of half an accumulation window would be lost."""
    held = {param for kept in owners.kept.values() for param in kept.parameters()}
    names = [name for name, p in owners.model.named_parameters() if p in held and p.grad is not None]
    if names:
        raise ValueError(
            f"save: there are gradients ({', '.join(names[:3])}), which a checkpoint does not hold: save after "
            "session.step(), or call session.zero_grad() to drop them"
        )


def _refuse_not_finite(owners: Owners, root: Path) -> None:
    """What cannot be trained on must not take the place of what can: only so many checkpoints are kept."""
    numbers = StateMeter(owners.model, owners.kept).measure(with_spread=False)
    names = [name for name, amax in {**numbers.weights, **numbers.moments}.items() if not math.isfinite(amax)]
    if names:
        some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        raise CheckpointNotWritten(
            f"save: {some} in this state is not finite, and a checkpoint of it would take the place of a good one: "
            f"those in {root} stay; go back to the newest of them with session.resume()"
        )
