"""What each of two processes does where a batch of one of them, or of both, is bad: each locates it."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import mixprec
from mixprec.monitor import Monitoring, locate
from mixprec.training import prepare

WATCHED = Monitoring(every=0, alarms=False)
#: Ranks whose batch is bad.
WHO: dict[str, tuple[int, ...]] = {"first": (0,), "second": (1,), "both": (0, 1)}


class Normed(nn.Module):
    """With buffers, which DDP sends from the first rank to all before a pass."""

    def __init__(self, how: str = "plain") -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.first(x))
        if self.how == "talking":
            h = h + 0.0 * _mean_over_ranks(h.detach())
        return checkpoint(self.last, h, use_reentrant=True) if self.how == "reentrant" else self.last(h)


def _mean_over_ranks(h: Tensor) -> Tensor:
    h = h.mean(0).nan_to_num()
    dist.all_reduce(h)
    return h / dist.get_world_size()


def batch(who: str, step: int) -> Tensor:
    rank = dist.get_rank()
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + rank))
    if rank in WHO[who] and step == 1:
        x[0, 0] = torch.nan
    return x


def data_parallel(who: str, recipe: str, how: str) -> Any:
    """Three steps, the second bad: what each rank found, and whether the ranks' weights are the same afterwards."""
    torch.manual_seed(0)
    model = Normed(how)
    mixprec.convert(model, recipe)
    ddp = DistributedDataParallel(model)
    session = prepare(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1), monitor=WATCHED)
    applied = [session.step(ddp(batch(who, step)).square().mean()).applied for step in range(3)]
    found = [(f.site, f.name, f.message) for f in session.findings]
    return applied, found, _are_equal(model)


def attached(who: str) -> Any:
    """The same for a loop that is only watched, with a scaler."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Normed())
    optimizer, scaler = torch.optim.SGD(ddp.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    monitor = mixprec.monitor(ddp, optimizer, WATCHED, scaler=scaler)
    for step in range(3):
        scaler.scale(ddp(batch(who, step)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    found = [(f.site, f.name, f.message) for f in monitor.findings]
    monitor.remove()
    return found, _are_equal(ddp.module)


def by_hand(who: str, ranks: tuple[int, ...]) -> Any:
    """``locate`` on some of the ranks; the training goes on, and buffers are as they were."""
    torch.manual_seed(0)
    ddp = DistributedDataParallel(Normed())
    ddp(batch(who, 0)).square().mean().backward()
    fault, x = None, batch(who, 1)
    before = [b.clone() for b in ddp.buffers()]
    if dist.get_rank() in ranks:
        fault = locate(ddp, lambda: ddp(x).square().mean().backward())
    same = all(map(torch.equal, before, ddp.buffers()))
    ddp(batch(who, 2)).square().mean().backward()
    return (fault.site, fault.cause.name) if fault else None, same, _are_equal(ddp.module)


def sharded(who: str, with_locate: bool) -> Any:
    """fully_shard: a replay alone is refused with the reason; ``session.locate`` on all ranks finds it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    mixprec.convert(model, "bf16")
    mesh = init_device_mesh("cpu", (2,))
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), monitor=WATCHED)
    fault = None
    if with_locate:
        session.step(model(batch(who, 0)).square().mean())
        x = batch(who, 1)
        fault = session.locate(lambda: model(x).square().mean())
    results = [session.step(model(batch(who, step)).square().mean()) for step in range(3)]
    found = [(f.site, f.name, f.message) for f in session.findings]
    located = (fault.site, fault.cause.name) if fault else None
    return [result.applied for result in results], found, located, results[1].reason


def _are_equal(model: nn.Module) -> bool:
    """Whether all ranks have the same parameters."""
    own = torch.cat([p.detach().flatten() for p in model.parameters()])
    most, least = own.clone(), own.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    return torch.equal(most, least)


def all_located() -> dict[str, Any]:
    """Every check, by name."""
    found: dict[str, Any] = {}
    for who in WHO:
        for recipe in ("fp16", "mxfp8"):
            found[f"ddp {recipe} {who}"] = data_parallel(who, recipe, "plain")
        found[f"attached {who}"] = attached(who)
        found[f"by hand, all {who}"] = by_hand(who, (0, 1))
        found[f"by hand, one {who}"] = by_hand(who, (0,))
        found[f"sharded {who}"] = sharded(who, False)
        found[f"sharded, located {who}"] = sharded(who, True)
    for how in ("reentrant", "talking"):
        found[how] = data_parallel("second", "fp32", how)
    return found
