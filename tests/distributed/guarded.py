"""What each of two processes does under a guard; every check gives plain values, which the tests compare."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import mixprec
from mixprec.guard import Guard, Rewind, Snapshots
from mixprec.training import Guarded, Session, prepare

Kind = Literal["ddp", "sharded"]
BATCHES, BAD, DAMAGED, DIED = 90, 60, 75, 9
SKIPS = Guard(snapshots=Snapshots(every=10, quiet=5))
GOES_BACK = Guard(snapshots=SKIPS.snapshots, skip=None, rewind=Rewind(batches=4))


class Shards:
    """A rank's own batches by their numbers; one is bad on one rank alone."""

    def __init__(self, bad_on: int | None = None) -> None:
        self.index, self._is_bad = 0, bad_on == dist.get_rank()

    def __iter__(self) -> Iterator[Tensor]:
        while self.index < BATCHES:
            number, self.index = self.index, self.index + 1
            x = torch.randn(16, 8, generator=torch.Generator().manual_seed(2 * number + dist.get_rank()))
            yield 100 * x if self._is_bad and number == BAD else x

    def state_dict(self) -> dict[str, Any]:
        return {"index": self.index}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.index = state["index"]


class Dying(Shards):
    """The process ends as the run goes back."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        os._exit(DIED)


class Run:
    """A model, its session and the guard of a rank."""

    def __init__(self, kind: Kind, settings: Guard = SKIPS) -> None:
        torch.manual_seed(0)
        model: nn.Module = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8))
        mixprec.convert(model, "bf16")
        if kind == "ddp":
            model = DistributedDataParallel(model)
        else:
            mesh = init_device_mesh("cpu", (2,))
            for layer in (model[0], model[2]):
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        self.session: Session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
        self.guarded: Guarded = self.session.guard(settings)

    def step(self, x: Tensor) -> None:
        self.session.step((self.session.model(x) - x.roll(1, 1)).square().mean())

    def train(self, loader: Shards, before: Callable[[int], None] = lambda calls: None, **options: Any) -> None:
        for calls, x in enumerate(self.guarded.batches(loader, **options)):
            before(calls)
            self.step(x)

    def flip(self) -> None:
        local(next(self.session.model.parameters()))[0, 0] = 3e30

    def spoil(self) -> None:
        local(next(iter(self.session.optimizer.state.values()))["exp_avg_sq"]).view(-1)[3] = torch.inf

    def told(self) -> dict[str, Any]:
        """Incidents but for their seconds, and the whole weights."""
        incidents = [{**asdict(one), "lost_seconds": 0.0} for one in self.session.incidents]
        full = [p.full_tensor() if isinstance(p, DTensor) else p for p in self.session.model.parameters()]
        return {
            "incidents": str(incidents),
            "seen": [(one.trigger, one.rung, one.step, one.back_to, one.batches) for one in self.session.incidents],
            "outcomes": {one.outcome for one in self.session.incidents},
            "weights": [p.detach().clone() for p in full],
            "applied": self.session.applied,
        }


def local(tensor: Tensor) -> Tensor:
    own = tensor.detach()
    return own.to_local() if isinstance(own, DTensor) else own


def with_faults(kind: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """A bad batch on rank 1, a flipped bit on rank 0, a bad moment on rank 1; and a run that left the batch out."""
    run = Run(kind)

    def damage(calls: int) -> None:
        if (calls, dist.get_rank()) == (DAMAGED, 0):
            run.flip()
        if (calls, dist.get_rank()) == (DAMAGED + 20, 1):
            run.spoil()

    run.train(Shards(bad_on=1), damage)
    other = Run(kind)
    other.train(Shards(), leave_out=[BAD])
    return run.told(), other.told()


def gone_back(kind: Kind) -> tuple[dict[str, Any], dict[str, Any]]:
    """A bad batch on rank 0, for which the run goes back; and a run that left those batches out."""
    run = Run(kind, GOES_BACK)
    run.train(Shards(bad_on=0))
    other = Run(kind, GOES_BACK)
    other.train(Shards(), leave_out=run.session.incidents[0].batches)
    return run.told(), other.told()


def all_guarded() -> dict[str, Any]:
    return {
        f"{check.__name__} {kind}": check(kind) for kind in ("ddp", "sharded") for check in (with_faults, gone_back)
    }


def dies_going_back(kind: Kind, folder: str) -> None:
    """Saved every 20 steps; a flipped bit on rank 0; rank 1 ends on the way back."""
    run = Run(kind)
    loader = Dying() if dist.get_rank() == 1 else Shards()
    for calls, x in enumerate(run.guarded.batches(loader)):
        if calls == DAMAGED and dist.get_rank() == 0:
            run.flip()
        run.step(x)
        if run.session.applied % 20 == 0:
            dcp.save(parts(run, loader), checkpoint_id=f"{folder}/{run.session.applied}")


def goes_on(kind: Kind, folder: str, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both ranks anew from what was saved, with one more flipped bit; and a run without any of it."""
    run, loader = Run(kind), Shards()
    run.step(torch.ones(16, 8))  # moments are there: what is loaded undoes it
    dcp.load(parts(run, loader), checkpoint_id=f"{folder}/{step}")
    begun = run.session.applied, loader.index

    def damage(calls: int) -> None:
        if (calls, dist.get_rank()) == (2, 1):
            run.flip()

    run.train(loader, damage)
    other = Run(kind)
    other.train(Shards())
    return {**run.told(), "begun": begun, "events": [event.message for event in run.session.events]}, other.told()


def parts(run: Run, loader: Shards) -> dict[str, Any]:
    session = run.session
    return {"model": session.model, "optimizer": session.optimizer, "session": session, "loader": loader}
