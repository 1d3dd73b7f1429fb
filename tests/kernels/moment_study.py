"""What 8-bit moments cost in accuracy; ``python -m tests.kernels.moment_study`` prints the tables of their page."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec.compare.workloads.gpt import workload
from mixprec.kernels import StoredMoment, get_backend
from mixprec.kernels.reference._moment_codes import numbers_of

EPS = 1e-8
SMALL = 4096
WAYS = ("bf16", "plain e4m3", "e4m3 fixed", "e4m3", "dynamic")
Moments = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Relative: of the first moment (of all elements, in the norm), of the second one's root (the median of the
    elements'), the largest factor by which a root is too large, and of the update m / (sqrt(v) + eps) in the norm."""

    first: float
    second: float
    worst: float
    update: float


def trained_moments(steps: int) -> Moments:
    """Both moments of each parameter of 4,096 elements and more, after steps of AdamW on the built-in GPT."""
    job = workload(0, "cpu", steps=400)
    optimizer = job.optimizer(job.model.parameters())
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * job.schedule(step)
        optimizer.zero_grad()
        job.loss(job.model, job.batches(step)).backward()
        torch.nn.utils.clip_grad_norm_(job.model.parameters(), 1.0)
        optimizer.step()
    state = [optimizer.state[p] for p in job.model.parameters() if p.numel() >= SMALL]
    return [(kept["exp_avg"].flatten(), kept["exp_avg_sq"].flatten()) for kept in state]


def kept(x: Tensor, way: str, block: int, *, signed: bool) -> Tensor:
    """The moment after it was kept once. ``plain e4m3``: torch's cast of each block brought to 448."""
    if way == "bf16":
        halves = StoredMoment("bf16", torch.empty(len(x), dtype=torch.bfloat16), is_signed=signed)
        get_backend("cpu").store_moment(halves, x)
        return halves.values.float()
    if way == "plain e4m3":
        blocks = torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block)
        scale = blocks.abs().amax(1, keepdim=True).clamp(min=1e-30) / 448
        return ((blocks / scale).to(torch.float8_e4m3fn).float() * scale).flatten()[: len(x)]
    backend = get_backend("cpu")
    count, kind = -(-len(x) // block), way.split()[0]
    powers = torch.empty(count, dtype=torch.uint8) if kind == "e4m3" else None
    codes = torch.empty(len(x), dtype=torch.uint8)
    stored = StoredMoment(kind, codes, torch.empty(count), powers, block, way == "e4m3", signed)
    backend.store_moment(stored, x)
    return backend.load_moment(stored)


def errors(moments: Moments, way: str, block: int) -> Errors:
    """Of one way to keep both moments."""
    first = update = size_first = size_update = 0.0
    ratios: list[Tensor] = []
    for m, v in moments:
        m8, v8 = kept(m, way, block, signed=True).double(), kept(v, way, block, signed=False).double()
        m, v = m.double(), v.double()
        first += (m8 - m).square().sum().item()
        size_first += m.square().sum().item()
        right, got = m / (v.sqrt() + EPS), m8 / (v8.sqrt() + EPS)
        update += (got - right).square().sum().item()
        size_update += right.square().sum().item()
        nonzero = v > 0
        ratios.append((v8[nonzero] / v[nonzero]).sqrt())
    ratio = torch.cat(ratios)
    return Errors(
        first=(first / size_first) ** 0.5,
        second=(ratio - 1).abs().median().item(),
        worst=ratio.max().item(),
        update=(update / size_update) ** 0.5,
    )


def to_nearest(v: Tensor, kind: str, block: int) -> Tensor:
    """A second moment under the codes that `kept` gives it, but each number the nearest."""
    if kind == "bf16":
        return v.bfloat16().float()
    count = len(v) // block
    powers = torch.empty(count, dtype=torch.uint8) if kind == "e4m3" else None
    stored = StoredMoment(kind, torch.empty(len(v), dtype=torch.uint8), torch.empty(count), powers, block, True, False)
    get_backend("cpu").store_moment(stored, v)
    u = v.view(count, block) / stored.scales.view(count, 1)
    result = torch.empty_like(u)
    for row, listed in enumerate(numbers_of(kind, False)):
        numbers = torch.tensor(listed)
        nearest = numbers[torch.bucketize(u, (numbers[1:] + numbers[:-1]) / 2)]
        result = nearest if powers is None else torch.where(powers.view(count, 1) == row, nearest, result)
    return (result * stored.scales.view(count, 1)).flatten()


def drift(kind: str, *, beta: float, steps: int, by_chance: bool, blocks: int = 16) -> tuple[float, float]:
    """Roots of second moments over those of fp32 (geometric means) after every other gradient doubled for good: of the
    elements whose gradients did, and of the others."""
    generator = torch.Generator().manual_seed(0)
    n, block = 256 * blocks, 256
    size = torch.exp(torch.randn(n, generator=generator))
    exact = size.square()
    got = exact.clone()
    now = torch.where(torch.arange(n) % 2 == 0, 2 * size, size)
    for _ in range(steps):
        squares = (torch.randn(n, generator=generator) * now).square()
        exact = beta * exact + (1 - beta) * squares
        got = beta * got + (1 - beta) * squares
        got = kept(got, kind, block, signed=False) if by_chance else to_nearest(got, kind, block)
    ratio = (got / exact).sqrt().log()
    return ratio[::2].mean().exp().item(), ratio[1::2].mean().exp().item()


def main() -> None:
    """Print the tables."""
    for steps in (40, 400):
        moments = trained_moments(steps)
        print(
            f"\nafter {steps} steps\n\n| kept as | block | m | sqrt(v) | largest factor | update |\n| --- "
            + "| --- " * 5
            + "|"
        )
        for way in WAYS:
            for block in (128, 256):
                e = errors(moments, way, block)
                print(f"| {way} | {block} | {e.first:.2%} | {e.second:.2%} | {e.worst:.2f} | {e.update:.2%} |")
    print("\n| kept as | beta2 | nearest: doubled, others | by chance |\n| --- " + "| --- " * 3 + "|")
    for kind in ("bf16", "e4m3", "dynamic"):
        for beta, steps in ((0.95, 100), (0.99, 500), (0.999, 2500)):
            rows = [drift(kind, beta=beta, steps=steps, by_chance=chance) for chance in (False, True)]
            print(f"| {kind} | {beta} | " + " | ".join(f"{a:.2f}, {b:.2f}" for a, b in rows) + " |")


if __name__ == "__main__":
    main()
