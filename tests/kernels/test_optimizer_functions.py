"""What the public functions of an optimizer's step refuse, and what they do around the backends."""

import pytest
import torch

from mixprec.kernels import (
    AdamWRule,
    SGDRule,
    Slot,
    StoredMoment,
    StoredWeight,
    get_backend,
    gradient_squares,
    load_weight,
    optimizer_backend,
    optimizer_step,
    store_moment,
    store_weight,
)

SGD = SGDRule(factor=1.0, weight_decay=0.0, momentum=0.0, alpha=1.0, nesterov=False, is_first=False, lr=0.5)
ADAMW = AdamWRule(
    factor=1.0, decay=1.0, beta1=0.5, alpha1=0.5, beta2=0.5, alpha2=0.5, rate=1.0, correction=1.0, eps=1.0
)
BF16 = torch.bfloat16


def plain(*shape: int) -> StoredWeight:
    return StoredWeight("plain", torch.ones(*shape))


@pytest.mark.parametrize(
    ("kind", "weight", "extra", "told"),
    [
        ("kept", torch.float32, None, "unknown way to keep a weight 'kept'"),
        ("plain", torch.float64, None, "kept as 'plain' is torch.float64"),
        ("split", torch.float16, torch.int16, "kept as 'split' is torch.float16, expected torch.bfloat16"),
        (
            "master",
            BF16,
            None,
            r"beside a weight kept as 'master', torch.bfloat16 \[2\] on cpu, lies `extra`.*got none",
        ),
        ("kahan", BF16, torch.float32, r"torch.bfloat16 of the same shape and device; got torch.float32 \[2\] on cpu"),
        ("stochastic", BF16, BF16, "nothing beside it; leave `extra` out"),
    ],
)
def test_weights_that_do_not_fit(kind, weight, extra, told):
    beside = None if extra is None else torch.zeros(2, dtype=extra)
    with pytest.raises((TypeError, ValueError), match=told):
        StoredWeight(kind, torch.zeros(2, dtype=weight), beside)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: StoredMoment("fp16", torch.zeros(2)), "unknown way to keep moments 'fp16'"),
        (lambda: StoredMoment("bf16", torch.zeros(2)), r"kept as 'bf16' is torch.float32 \[2\] on cpu"),
        (lambda: StoredMoment("fp32", torch.zeros(2, 3).T), r"with strides \(1, 3\), expected contiguous"),
        (lambda: StoredMoment("dynamic", torch.zeros(2, dtype=torch.uint8)), r"lie `scales`.*\[1\] on cpu; got none"),
        (
            lambda: StoredMoment("e4m3", torch.zeros(300, dtype=torch.uint8), torch.zeros(2)),
            r"300 codes of a moment, in blocks of 256, lie `powers`, contiguous torch.uint8 \[2\]",
        ),
        (
            lambda: StoredMoment("dynamic", torch.zeros(2, dtype=torch.uint8), torch.zeros(1), block=64),
            "block is 64, expected 128 or 256",
        ),
    ],
)
def test_moments_that_do_not_fit(make, told):
    with pytest.raises(ValueError, match=told):
        make()


@pytest.mark.parametrize(
    ("slot", "rule", "told"),
    [
        (Slot(torch.ones(2, dtype=torch.float64), plain(2), ()), SGD, "gradient 0 is torch.float64"),
        (Slot(torch.ones(2).to_sparse(), plain(2), ()), SGD, "a sparse or float64 gradient is left to an optimizer"),
        (Slot(torch.ones(3, 2), plain(2, 3), ()), SGD, r"slot 0: the gradient is torch.float32 \[3, 2\]"),
        (Slot(torch.ones(2), plain(2), ()), ADAMW, "slot 0 has 0 moments, this AdamWRule takes 2"),
        (Slot(torch.ones(2), plain(2), (StoredMoment("fp32", torch.ones(2)),)), SGD, "1 moments, this SGDRule takes 0"),
        (
            Slot(torch.ones(2), plain(2), (StoredMoment("fp32", torch.ones(3)),) * 2),
            ADAMW,
            r"a moment is torch.float32 \[3\] on cpu",
        ),
        (Slot(torch.ones(2), plain(2), ()), "sgd", "rule of type str, expected AdamWRule or SGDRule"),
    ],
)
def test_slots_that_do_not_fit(slot, rule, told):
    before = slot.weight.weight.clone()
    with pytest.raises((TypeError, ValueError), match=told):
        optimizer_step([slot], rule)
    assert torch.equal(slot.weight.weight, before), "nothing is written before all is checked"


def test_a_weight_that_changed_its_dtype_is_refused():
    stored = StoredWeight("split", torch.nn.Parameter(torch.ones(2, dtype=BF16)), torch.zeros(2, dtype=torch.int16))
    stored.weight.data = torch.ones(2)
    with pytest.raises(TypeError, match=r"kept as 'split' is torch\.float32"):
        optimizer_step([Slot(torch.ones(2), stored, ())], SGD)
    with pytest.raises(TypeError, match=r"kept as 'split' is torch\.float32"):
        load_weight(stored)


def test_devices_that_differ():
    meta = Slot(torch.ones(2, device="meta"), StoredWeight("plain", torch.ones(2, device="meta")), ())
    with pytest.raises(ValueError, match="for all slots one device, here cpu"):
        optimizer_step([Slot(torch.ones(2), plain(2), ()), meta], SGD)
    with pytest.raises(ValueError, match="gradient 1 lies on meta, gradient 0 on cpu"):
        gradient_squares([torch.ones(2), torch.ones(2, device="meta")])


def test_values_that_do_not_fit():
    with pytest.raises(ValueError, match=r"the value to keep is torch.float64 \[2\] on cpu"):
        store_weight(plain(2), torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"expected torch.float32 of shape \[2\]"):
        store_moment(StoredMoment("fp32", torch.zeros(2)), torch.zeros(3))


def test_nothing_to_do():
    optimizer_step([], SGD)
    assert gradient_squares([]).shape == (0,)
    assert gradient_squares([torch.ones(0, 3)]).tolist() == [0.0]


def test_a_parameter_is_stepped_and_autograd_knows():
    param = torch.nn.Parameter(torch.ones(3))
    product = (param * param).sum()
    optimizer_step([Slot(torch.ones(3), StoredWeight("plain", param), ())], SGD)
    assert param.tolist() == [0.5] * 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


@pytest.mark.parametrize("kind", ["plain", "master", "split"])
def test_weights_in_another_memory_order(kind):
    """A channels-last weight is stepped as the same weight in C order."""
    extras = {"master": torch.float32, "split": torch.int16}
    values = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    dtype = BF16 if kind in extras else torch.float32
    made: list[StoredWeight] = []
    for order in (torch.contiguous_format, torch.channels_last):
        weight = torch.zeros(4, 3, 5, 5, dtype=dtype).to(memory_format=order)
        extra = torch.zeros_like(weight, dtype=extras[kind]) if kind in extras else None
        made.append(StoredWeight(kind, weight, extra))
    gradient = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    for stored in made:
        store_weight(stored, values)
        assert torch.equal(load_weight(stored), values)
        optimizer_step([Slot(gradient, stored, ())], SGD)
    assert torch.equal(load_weight(made[0]), load_weight(made[1]))
    assert torch.equal(made[0].weight, made[1].weight)
    assert not torch.equal(load_weight(made[0]), values)
    assert made[1].weight.is_contiguous(memory_format=torch.channels_last)


def test_the_backend_of_a_device():
    assert optimizer_backend("cpu").name == "cpu"
    assert optimizer_backend("meta") is get_backend("reference")
