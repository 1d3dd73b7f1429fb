"""Every instruction set codes moments in 8 bits, and reads them, as the reference does, bit for bit."""

import itertools

import pytest
import torch
from torch import Tensor

from mixprec.kernels import OptimizerBackend, StoredMoment, get_backend
from mixprec.kernels.cpu import CpuBackend, level_names

KINDS = [(kind, expand, signed) for kind in ("e4m3", "dynamic") for expand in (True, False) for signed in (True, False)]
SIZES = (1, 2, 15, 16, 17, 127, 128, 129, 255, 256, 257, 1000, 1024, 1025, 5000)
INF, NAN = float("inf"), float("nan")


@pytest.fixture(params=level_names())
def other(request: pytest.FixtureRequest) -> OptimizerBackend:
    """Every instruction set of the compiled backend."""
    return CpuBackend(request.param)


@pytest.fixture
def reference() -> OptimizerBackend:
    backend = get_backend("reference")
    assert isinstance(backend, OptimizerBackend)
    return backend


def kept(n: int, block: int, kind: str, expand: bool, signed: bool) -> StoredMoment:
    blocks = -(-n // block)
    powers = torch.full((blocks,), 9, dtype=torch.uint8) if kind == "e4m3" else None
    codes, scales = torch.full((n,), 99, dtype=torch.uint8), torch.full((blocks,), -1.0)
    return StoredMoment(kind, codes, scales, powers, block, expand, signed)


def bits(x: Tensor) -> Tensor:
    return torch.where(x.isnan(), 0x7FC00000, x.view(torch.int32))


def check(other: OptimizerBackend, reference: OptimizerBackend, values: Tensor, block: int, kind: tuple) -> Tensor:
    got, right = kept(len(values), block, *kind), kept(len(values), block, *kind)
    other.store_moment(got, values)
    reference.store_moment(right, values)
    wrong = (got.values != right.values).nonzero().flatten()
    assert not len(wrong), (kind, block, wrong[:5], values[wrong[:5]], got.values[wrong[:5]], right.values[wrong[:5]])
    assert torch.equal(got.scales.view(torch.int32), right.scales.view(torch.int32))
    assert right.powers is None or torch.equal(got.powers, right.powers)
    read = reference.load_moment(right)
    assert torch.equal(bits(other.load_moment(got)), bits(read))
    return read


def blocks_of_kinds(seed: int) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(seed)
    n = 256 * 6 + 77
    normal = torch.randn(n, generator=g)
    each = torch.randint(0, 2**32, (n,), generator=g).to(torch.int32).view(torch.float32)
    mixed = torch.exp(torch.randn(n, generator=g) * 4) * normal.sign()
    return {
        "normal": normal,
        "squares": normal * normal,
        "mean squares": torch.randn(20, n, generator=g).square().mean(0),
        "heavy tails": mixed,
        "all bits": torch.where(each.isfinite(), each, 0.0),
        "huge": (normal.double() * 2.0**126).float().nan_to_num(),
        "tiny": (normal.double() * 2.0**-120).float(),
        "subnormal": torch.randint(-(2**23), 2**23, (n,), generator=g).float() * 2.0**-149,
        "zeros": torch.zeros(n),
        "negative zeros": -torch.zeros(n),
        "mostly zeros": torch.where(torch.rand(n, generator=g) < 0.9, 0.0, normal),
        "constant": torch.full((n,), 0.37),
        "alternating": torch.where(torch.arange(n) % 2 == 0, 3.0, -1e-3),
        "one large": torch.where(torch.arange(n) % 100 == 3, 1e6, normal),
        "whole binades": 2.0 ** torch.randint(-40, 1, (n,), generator=g).float(),
        "ranges": normal.sign() * torch.exp2(-torch.rand(n, generator=g) * (torch.arange(n) // 128).float() * 2),
    }


@pytest.mark.parametrize("block", [128, 256])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_blocks(other: OptimizerBackend, reference: OptimizerBackend, kind: tuple, block: int) -> None:
    for seed in range(2):
        for values in blocks_of_kinds(seed).values():
            check(other, reference, values if kind[2] else values.abs(), block, kind)


@pytest.mark.parametrize("block", [128, 256])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_sizes(other: OptimizerBackend, reference: OptimizerBackend, kind: tuple, block: int) -> None:
    for n in SIZES:
        values = torch.randn(n, generator=torch.Generator().manual_seed(n))
        check(other, reference, values if kind[2] else values * values, block, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_and_what_lies_between(other: OptimizerBackend, reference: OptimizerBackend, kind: tuple) -> None:
    """Values next to every number and every middle of two, under a scale of 1 and others."""
    stored = kept(256, 256, *kind)
    stored.values.copy_(torch.arange(256))
    stored.scales.fill_(1.0)
    for power in range(4 if kind[0] == "e4m3" else 1):
        if stored.powers is not None:
            stored.powers.fill_(power)
        numbers = reference.load_moment(stored)
        assert torch.equal(bits(other.load_moment(stored)), bits(numbers))
        numbers = numbers[numbers.isfinite()].abs().unique()
        values = torch.cat([numbers, ((numbers[1:].double() + numbers[:-1].double()) / 2).float()])
        near = torch.cat(
            [values, torch.nextafter(values, torch.tensor(0.0)), torch.nextafter(values, torch.tensor(9.0))]
        )
        for scale in (1.0, 3.7, 1e-9):
            padded = torch.nn.functional.pad((near * scale).view(-1, 1), (0, 127), value=scale).flatten()
            check(other, reference, padded, 128, kind)
            check(other, reference, -padded if kind[2] else padded, 128, kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_not_finite_spoils_its_block_alone(
    other: OptimizerBackend, reference: OptimizerBackend, kind: tuple
) -> None:
    for bad, n in itertools.product((INF, -INF, NAN), (300, 512)):
        values = torch.ones(n)
        values[n - 1] = bad
        read = check(other, reference, values, 256, kind)
        assert torch.equal(read[:256], torch.ones(256))
        assert read[256:].isnan().all()
