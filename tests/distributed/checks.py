"""What each of two processes does; every check gives plain values, which the tests compare."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import mixprec
from mixprec.specs import LossScale
from mixprec.training import prepare

DYNAMIC = LossScale(kind="dynamic", initial=8.0, alarm_after=2)


class Parts(nn.Module):
    """Two parameters, each reached by a loss of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.p, self.q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))

    def forward(self) -> Tensor:
        return self.p.sum() + self.q.sum()


def bad_on(rank: int) -> float:
    return math.inf if dist.get_rank() == rank else 1.0


def values(model: nn.Module) -> list[float]:
    return [x for p in model.parameters() for x in p.detach().flatten().tolist()]


def losses_and_alarm() -> Any:
    """Only the loss at fault shrinks, on both ranks; the alarm sounds on both."""
    model = Parts()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", loss_scale=DYNAMIC)
    for _ in range(2):
        session.backward(model.p.sum())
        session.backward(model.q.sum() * bad_on(0), name="adv")
        session.step()
    alarms = [e.name for e in session.events if e.name == "loss scale alarm"]
    session.backward(model.p.sum() * bad_on(1))
    session.backward(model.q.sum(), name="adv")
    result = session.step()
    return dict(result.loss_scales), alarms, values(model), session.skipped


def different_names() -> str:
    model = Parts()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", loss_scale=DYNAMIC)
    told = refusal(lambda: session.step(model(), name="a" if dist.get_rank() else "b"))
    result = session.step(model())  # the names that were refused are unknown again, their gradients gone
    return f"{told}; then {result.applied} with norm {result.grad_norm:g}"


def different_seeds() -> str:
    """Weights that are rounded stochastically would drift apart."""
    model = Parts()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "bf16-sr", seed=dist.get_rank())
    return refusal(lambda: session.step(model()))


def refused_on_one() -> str:
    """A loop that forgot session.backward on one rank: both are told, nobody waits."""
    model = Parts()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", loss_scale=DYNAMIC)
    if dist.get_rank() == 0:
        model().backward()
    else:
        session.backward(model())
    return refusal(session.step)


def norms_that_differ() -> str:
    model = Parts()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", clip_norm=0.5)
    return refusal(lambda: session.step(model() * (1 + dist.get_rank())))


def each_alone() -> Any:
    model = Parts()
    session = prepare(
        model, torch.optim.SGD(model.parameters(), lr=1.0), "fp32", loss_scale=DYNAMIC, process_group=None
    )
    result = session.step(model() * bad_on(0))
    return result.applied, result.loss_scale


def without_gradients_on_one() -> Any:
    """A rank that has nothing to update takes part; where none has, nothing happens."""
    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    session = prepare(model, optimizer, "fp32", loss_scale=DYNAMIC, schedule=schedule)
    if dist.get_rank() == 0:
        session.backward(model())
    first = session.step()
    second = session.step()
    return first.applied, second.applied, session.applied, optimizer.param_groups[0]["lr"], values(model)


def data_parallel(accumulate: bool) -> Any:
    """DDP against one process that sees both ranks' batches."""
    plain, model = net(), net()
    reference = torch.optim.SGD(plain.parameters(), lr=0.1)
    mixprec.convert(model, "fp32")
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    session = prepare(ddp, optimizer, loss_scale=DYNAMIC, clip_norm=0.05)
    applied = []
    for step in range(3):
        # The last step overflows on rank 1 alone.
        factor = bad_on(1) if step == 2 else 1.0
        micro = [batch(step, i) for i in range(2 if accumulate else 1)]
        for i, x in enumerate(micro):
            quiet = ddp.no_sync() if i < len(micro) - 1 else contextlib.nullcontext()
            with quiet:
                session.backward(ddp(x).square().mean() / len(micro) * factor)
        result = session.step()
        applied.append(result.applied)
        if step < 2:
            losses = [plain(batch(step, i, rank)).square().mean() for i in range(len(micro)) for rank in range(2)]
            (sum(losses) / len(losses)).backward()
            nn.utils.clip_grad_norm_(plain.parameters(), 0.05)
            reference.step()
            reference.zero_grad()
    return applied, session.loss_scale, difference(model, plain)


def sharded() -> Any:
    """fully_shard against one process: norms, clipping and skips are those of the whole model."""
    plain, model = net(), net()
    mesh = init_device_mesh("cpu", (2,))
    mixprec.convert(model, "fp32")
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01), loss_scale=DYNAMIC, clip_norm=0.05)
    reference = torch.optim.AdamW(plain.parameters(), lr=0.01)
    norms = []
    for step in range(3):
        result = session.step(model(batch(step, 0)).square().mean())
        losses = [plain(batch(step, 0, rank)).square().mean() for rank in range(2)]
        (sum(losses) / 2).backward()
        norms.append((result.grad_norm, nn.utils.clip_grad_norm_(plain.parameters(), 0.05).item()))
        reference.step()
        reference.zero_grad()
    skipped = session.step(model(batch(3, 0)).square().mean() * bad_on(1))
    return norms, skipped.applied, skipped.loss_scale, difference(model, plain)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3))


def batch(step: int, part: int, rank: int | None = None) -> Tensor:
    rank = dist.get_rank() if rank is None else rank
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(100 * step + 10 * part + rank))


def difference(model: nn.Module, plain: nn.Module) -> float:
    """Largest one between parameters, those of a sharded model gathered."""
    pairs = zip(model.parameters(), plain.parameters(), strict=True)
    full = [(p.full_tensor() if hasattr(p, "full_tensor") else p, q) for p, q in pairs]
    return max((p - q).abs().max().item() for p, q in full)


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def all_checks() -> dict[str, Any]:
    return {
        "losses_and_alarm": losses_and_alarm(),
        "different_names": different_names(),
        "different_seeds": different_seeds(),
        "refused_on_one": refused_on_one(),
        "norms_that_differ": norms_that_differ(),
        "each_alone": each_alone(),
        "without_gradients_on_one": without_gradients_on_one(),
        "ddp": data_parallel(accumulate=False),
        "ddp_accumulation": data_parallel(accumulate=True),
        "sharded": sharded(),
    }
