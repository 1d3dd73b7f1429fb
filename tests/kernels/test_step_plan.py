"""Plans of steps and counters: what they do is what the plain calls do, and what they refuse."""

import pytest
import torch

from mixprec.kernels import AdamWRule, Counters, Draw, Slot, StepPlan, StoredMoment, StoredWeight, optimizer_step

ADAMW = AdamWRule(
    factor=0.5, decay=0.9, beta1=0.5, alpha1=0.5, beta2=0.5, alpha2=0.5, rate=0.1, correction=1.0, eps=1e-8
)
Kept = list[tuple[StoredWeight, tuple[StoredMoment, ...]]]


def kept(bytes_of_moments: str = "fp32") -> Kept:
    torch.manual_seed(0)
    dtype = torch.float32 if bytes_of_moments == "fp32" else torch.bfloat16
    found: Kept = []
    for size in ((8, 8), (3, 5), (300,)):
        weight = torch.randn(size).bfloat16()
        moments = tuple(
            StoredMoment(bytes_of_moments, torch.zeros(size, dtype=dtype), is_signed=signed) for signed in (True, False)
        )
        found.append((StoredWeight("stochastic", weight), moments))
    return found


def gradients(step: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(size, generator=generator).to(dtype) for size in ((8, 8), (3, 5), (300,))]


@pytest.mark.parametrize("moments", ["fp32", "bf16"])
def test_planned_steps_are_plain_steps_bit_for_bit(moments: str) -> None:
    ours, theirs = kept(moments), kept(moments)
    plan = StepPlan(ours)
    for step, dtype in enumerate((torch.float32, torch.bfloat16, torch.float32, torch.float16)):
        found, offsets = gradients(step, dtype), [step * 10 + i for i in range(3)]
        plan.step(found, ADAMW, seed=7, offsets=offsets)
        draws = [Draw(7, offset) for offset in offsets]
        optimizer_step([Slot(g, *one, draw) for g, one, draw in zip(found, theirs, draws, strict=True)], ADAMW)
    for (ours_weight, ours_moments), (weight, of_it) in zip(ours, theirs, strict=True):
        assert torch.equal(ours_weight.weight, weight.weight)
        assert all(torch.equal(a.values, b.values) for a, b in zip(ours_moments, of_it, strict=True))


def test_a_step_is_a_write() -> None:
    one = kept()
    version = one[0][0].weight._version
    StepPlan(one).step(gradients(0, torch.float32), ADAMW, 0, [0, 0, 0])
    assert one[0][0].weight._version > version


def test_weights_that_are_not_contiguous_are_stepped_in_place() -> None:
    weight, twin = torch.randn(4, 6).t(), torch.randn(1)
    twin = weight.clone()
    gradient = torch.randn(6, 4)
    for each in (weight, twin):
        moments = (StoredMoment("fp32", torch.zeros(6, 4)), StoredMoment("fp32", torch.zeros(6, 4), is_signed=False))
        StepPlan([(StoredWeight("plain", each), moments)]).step([gradient], ADAMW, 0, [0])
    assert torch.equal(weight, twin)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda found: found[:2], "the plan is of 3 parameters, got 2 gradients"),
        (lambda found: [found[1], found[0], found[2]], r"the gradient is torch.float32 \[3, 5\]"),
        (lambda found: [found[0].double(), *found[1:]], "gradient 0 is torch.float64"),
        (lambda found: [found[0].to_sparse(), *found[1:]], "gradient 0 is torch.float32, torch.sparse_coo"),
        (lambda found: [found[0].to("meta"), *found[1:]], "for all slots one device"),
    ],
)
def test_gradients_that_do_not_fit(spoil, told: str) -> None:
    one = kept()
    plan, before = StepPlan(one), one[2][0].weight.clone()
    with pytest.raises((TypeError, ValueError), match=told):
        plan.step(spoil(gradients(0, torch.float32)), ADAMW, 0, [0, 0, 0])
    assert torch.equal(one[2][0].weight, before)


def test_tensors_that_changed_are_checked_anew() -> None:
    one = kept()
    plan = StepPlan(one)
    one[0][1][0].values.data = torch.zeros(8, 8, dtype=torch.float64)
    with pytest.raises(ValueError, match="a moment kept as 'fp32' is"):
        plan.step(gradients(0, torch.float32), ADAMW, 0, [0, 0, 0])
    one[0][1][0].values.data = torch.zeros(8, 8)
    plan.step(gradients(0, torch.float32), ADAMW, 0, [0, 0, 0])
    assert one[0][1][0].values.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_counters_count(dtype: torch.dtype) -> None:
    tensors = [torch.tensor(4, dtype=dtype) for _ in range(3)]
    counters = Counters(tensors)
    assert counters.are(4)
    counters.advance()
    assert counters.are(5)
    assert [int(tensor) for tensor in tensors] == [5, 5, 5]
    tensors[1].fill_(9)
    assert not counters.are(5)


def test_counters_are_found_where_they_lie() -> None:
    tensors = [torch.tensor(1.0), torch.tensor(1.0)]
    counters = Counters(tensors)
    counters.advance()
    old = tensors[0].data
    tensors[0].data = torch.tensor(2.0)
    counters.advance()
    assert old == 2
    assert tensors[0] == 3
    tensors[0].data = torch.tensor(3.0, dtype=torch.float64)
    counters.advance()
    assert tensors[0].dtype == torch.float64
    assert counters.are(4)
