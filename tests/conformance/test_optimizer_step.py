"""Every backend steps as the reference does, bit for bit, whatever is updated and however it is kept."""

import itertools

import pytest
import torch

from mixprec.kernels import AdamWRule, Backend, OptimizerBackend, Rule, Slot, get_backend
from mixprec.kernels.cpu import CpuBackend, level_names

from .patterns import random_fp32
from .slots import (
    ADAMW,
    DRAW,
    MOMENTS,
    RULES,
    WEIGHTS,
    copied,
    kept_moment,
    kept_weight,
    same_bits,
    same_slots,
    slot_of,
)

GRADIENTS = (torch.float32, torch.bfloat16, torch.float16)
SIZES = (0, 1, 7, 127, 1023, 1024, 1025, 5000)
INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, 1e-45, -1e-40, 1.17549435e-38, 3.4e38, -3.4e38, 1e19, 1e-20, INF, -INF, NAN)


@pytest.fixture(params=level_names())
def other(request: pytest.FixtureRequest) -> OptimizerBackend:
    """Every instruction set of the compiled backend."""
    return CpuBackend(request.param)


@pytest.fixture
def reference() -> OptimizerBackend:
    backend: Backend = get_backend("reference")
    assert isinstance(backend, OptimizerBackend)
    return backend


def check_step(other: OptimizerBackend, reference: OptimizerBackend, slots: list[Slot], rule: Rule) -> list[Slot]:
    got, right = [copied(slot) for slot in slots], [copied(slot) for slot in slots]
    other.optimizer_step(got, rule)
    reference.optimizer_step(right, rule)
    for a, b, before in zip(got, right, slots, strict=True):
        assert same_slots(a, b), (a.weight.kind, a.gradient.dtype, [m.kind for m in a.moments])
        finite = a.gradient.isfinite().all() and a.gradient.numel() > 1
        assert not finite or not same_bits(a.weight.weight, before.weight.weight), "nothing was updated"
    return right


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("weight", WEIGHTS, ids=lambda weight: f"{weight[0]}-{str(weight[1])[6:]}")
def test_every_keeping(other: OptimizerBackend, reference: OptimizerBackend, weight, name: str) -> None:
    rule = RULES[name]
    moments = MOMENTS if isinstance(rule, AdamWRule) or rule.momentum else MOMENTS[:1]
    cases = itertools.product(moments, GRADIENTS)
    slots = [slot_of(1300, rule, weight, moment, dtype, seed=i) for i, (moment, dtype) in enumerate(cases)]
    check_step(other, reference, check_step(other, reference, slots, rule), rule)


@pytest.mark.parametrize("moment", MOMENTS[:4] + MOMENTS[5:6], ids=lambda moment: moment[0])
def test_sizes(other: OptimizerBackend, reference: OptimizerBackend, moment) -> None:
    cases = itertools.product(SIZES, WEIGHTS)
    slots = [slot_of(n, ADAMW, weight, moment, torch.float32, seed=i) for i, (n, weight) in enumerate(cases)]
    check_step(other, reference, slots, ADAMW)


@pytest.mark.parametrize("threads", [1, 2])
def test_thread_count_does_not_matter(other: OptimizerBackend, reference: OptimizerBackend, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        sizes = (40_000, 3, 0, 1025, 20_000)
        slots = [
            slot_of(n, ADAMW, weight, moment, torch.bfloat16, seed=n)
            for n, weight, moment in zip(sizes, WEIGHTS[2:], MOMENTS, strict=False)
        ]
        check_step(other, reference, slots, ADAMW)
        gradients = [slot.gradient for slot in slots]
        assert torch.equal(other.gradient_squares(gradients), reference.gradient_squares(gradients))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", RULES)
def test_special_values(other: OptimizerBackend, reference: OptimizerBackend, name: str) -> None:
    rule = RULES[name]
    grid = torch.tensor(list(itertools.product(SPECIAL, repeat=3)), dtype=torch.float32)
    slots: list[Slot] = []
    for weight in WEIGHTS:
        for moment in MOMENTS[:2]:
            moments = [kept_moment(moment, grid[:, 1].contiguous(), True)]
            if isinstance(rule, AdamWRule):
                moments.append(kept_moment(moment, grid[:, 2].abs(), False))
            kept = kept_weight(*weight, grid[:, 0].contiguous())
            needed = moments if isinstance(rule, AdamWRule) or rule.momentum else []
            slots.append(Slot(grid[:, 2].contiguous(), kept, tuple(needed), DRAW))
    check_step(other, reference, slots, rule)


def test_keeping_of_random_patterns(other: OptimizerBackend, reference: OptimizerBackend) -> None:
    values = random_fp32(2**16 + 5, seed=3)
    for weight in WEIGHTS:
        mine, theirs = kept_weight(*weight, torch.zeros_like(values)), kept_weight(*weight, torch.zeros_like(values))
        other.store_weight(mine, values, DRAW)
        reference.store_weight(theirs, values, DRAW)
        for a, b in ((mine.weight, theirs.weight), (mine.extra, theirs.extra)):
            assert a is None or b is None or same_bits(a, b), weight
        assert same_bits(other.load_weight(mine), reference.load_weight(theirs)), weight


def test_keeping_of_random_moments(other: OptimizerBackend, reference: OptimizerBackend) -> None:
    for moment in MOMENTS:
        values = random_fp32(2**14 + 5, seed=4)
        # One block that is not finite is enough: it is read as NaN.
        values = torch.where(values.isfinite() | (torch.arange(len(values)) < 300), values, 1.0)
        mine, theirs = (kept_moment(moment, torch.zeros_like(values), True) for _ in range(2))
        other.store_moment(mine, values)
        reference.store_moment(theirs, values)
        for name in ("values", "scales", "powers"):
            a, b = getattr(mine, name), getattr(theirs, name)
            assert a is None or same_bits(a, b), (moment, name)
        assert same_bits(other.load_moment(mine), reference.load_moment(theirs)), moment


@pytest.mark.parametrize("dtype", GRADIENTS)
def test_squares(other: OptimizerBackend, reference: OptimizerBackend, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    sizes = (0, 1, 5, 1023, 1024, 1025, 3 * 1024 + 7, 100_000)
    gradients = [torch.randn(n, generator=generator).mul(10.0).to(dtype) for n in sizes]
    gradients.append(torch.randn(33, 50, generator=generator).to(dtype).T)
    got, right = other.gradient_squares(gradients), reference.gradient_squares(gradients)
    assert torch.equal(got, right)
    truth = torch.tensor([gradient.double().square().sum() for gradient in gradients], dtype=torch.float64)
    assert torch.allclose(got, truth, rtol=1e-12, atol=0.0)


def test_squares_are_finite_unless_an_element_is_not(other: OptimizerBackend) -> None:
    largest = torch.full((5000,), 3.4028234e38)
    faults = [largest.clone(), largest.clone(), largest]
    faults[0][4999], faults[1][17] = float("nan"), -float("inf")
    assert other.gradient_squares(faults).isfinite().tolist() == [False, False, True]
    assert other.gradient_squares(faults[1:])[0] == float("inf")


def test_strided_gradients(other: OptimizerBackend, reference: OptimizerBackend) -> None:
    slots: list[Slot] = []
    for seed, weight in enumerate(WEIGHTS):
        flat = slot_of(40 * 70, ADAMW, weight, MOMENTS[0], torch.bfloat16, seed)
        kept = flat.weight
        extra = None if kept.extra is None else kept.extra.view(40, 70)
        stored = type(kept)(kept.kind, kept.weight.view(40, 70), extra)
        moments = tuple(type(m)(m.kind, m.values.view(40, 70)) for m in flat.moments)
        slots.append(Slot(flat.gradient.view(70, 40).T, stored, moments, DRAW))
    check_step(other, reference, slots, ADAMW)
    straight = [Slot(slot.gradient.contiguous(), slot.weight, slot.moments, slot.draw) for slot in slots]
    for strided, contiguous in zip(slots, straight, strict=True):
        first, second = copied(strided), copied(contiguous)
        other.optimizer_step([first], ADAMW)
        other.optimizer_step([second], ADAMW)
        assert same_slots(first, second)


@pytest.mark.slow
def test_keeping_of_16_million_patterns(reference: OptimizerBackend) -> None:
    levels = {name: CpuBackend(name) for name in level_names()}
    assert levels
    for part, weight in itertools.product(range(8), WEIGHTS):
        values = random_fp32(2**21, seed=300 + part)
        kept = kept_weight(*weight, torch.zeros_like(values))
        reference.store_weight(kept, values, DRAW)
        loaded = reference.load_weight(kept)
        for name, level in levels.items():
            mine = kept_weight(*weight, torch.zeros_like(values))
            level.store_weight(mine, values, DRAW)
            assert same_bits(mine.weight, kept.weight), (name, weight)
            assert same_bits(level.load_weight(mine), loaded), (name, weight)


@pytest.mark.parametrize("name", ["adamw", "momentum"])
def test_split_weights_that_were_written_over(other: OptimizerBackend, reference: OptimizerBackend, name: str) -> None:
    slot = slot_of(5000, RULES[name], ("split", torch.bfloat16), MOMENTS[0], torch.float32, seed=1)
    slot.weight.weight[::3] = 0.0
    slot.weight.weight[1::30] = -0.0
    slot.weight.weight[2::30] = INF
    assert slot.weight.extra is not None
    assert (slot.weight.extra[::3] < 0).any(), "a zero whose remainder makes a NaN of it"
    (after,) = check_step(other, reference, [slot], RULES[name])
    assert not after.weight.weight[::3].isnan().any()
