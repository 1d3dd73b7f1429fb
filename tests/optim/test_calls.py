"""What an optimizer keeps from step to step is never older than the tensors: every way to change them is noticed.

Each case takes the same steps as a twin that finds everything anew in each step.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import Parameter

import mixprec.optim
from mixprec.optim import keep_weights
from mixprec.optim._kernel_optimizer import KernelOptimizer
from mixprec.specs import Moments

Change = Callable[[KernelOptimizer, list[Parameter]], None]
SIZES = ((8, 8), (5,), (40, 10), ())


def optimizer(kind: str, moments: str) -> tuple[KernelOptimizer, list[Parameter]]:
    torch.manual_seed(0)
    params = [Parameter(torch.randn(size).bfloat16()) for size in SIZES]
    params.append(Parameter(torch.randn(8, 8)))
    kept = Moments(kind=moments, small=16)
    return mixprec.optim.AdamW(params, lr=0.01, weights=kind, moments=kept, seed=3), params


def set_gradients(own: KernelOptimizer, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for group in own.param_groups:
        for p in group["params"]:
            p.grad = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)


def forget(own: KernelOptimizer) -> None:
    """As if nothing were kept but the versions of the weights."""
    own._forget_calls()
    own._held.clear()


def bits(own: KernelOptimizer) -> Iterator[torch.Tensor]:
    for group in own.param_groups:
        for p in group["params"]:
            yield p.detach()
            yield from (value for _, value in sorted(own.state[p].items()))


def replace_data(own: KernelOptimizer, params: list[Parameter]) -> None:
    for p in params:
        p.data = p.data.clone() + 1


def share_one_memory(own: KernelOptimizer, params: list[Parameter]) -> None:
    row = torch.cat([p.data.flatten().float() for p in params if p.dtype == torch.float32])
    params[-1].data = row.view(8, 8)


def transpose(own: KernelOptimizer, params: list[Parameter]) -> None:
    params[0].data = params[0].data.t()  # the same memory in another order


def replace_moment(own: KernelOptimizer, params: list[Parameter]) -> None:
    for p in params:
        name = next(key for key in own.state[p] if key.startswith("exp_avg"))
        own.state[p][name] = own.state[p][name].clone()


def replace_data_of_moment(own: KernelOptimizer, params: list[Parameter]) -> None:
    for p in params:
        name = next(key for key in own.state[p] if key.startswith("exp_avg"))
        own.state[p][name].data = own.state[p][name].data.clone()


def free_the_state(own: KernelOptimizer, params: list[Parameter]) -> None:
    for state in own.state.values():
        state.clear()
    gc.collect()


def drop_the_state(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.state.clear()


def swap_states(own: KernelOptimizer, params: list[Parameter]) -> None:
    state = own.state
    state[params[0]], state[params[-1]] = {}, {}


def load_a_state(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.load_state_dict(own.state_dict())


def count_otherwise(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.state[params[1]]["step"].fill_(7)


def count_in_fp64(own: KernelOptimizer, params: list[Parameter]) -> None:
    for p in params:
        own.state[p]["step"].data = own.state[p]["step"].data.double()


def add_a_group(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.add_param_group({"params": [Parameter(torch.ones(3, 3))], "lr": 0.5})


def replace_a_parameter(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.param_groups[0]["params"][2] = Parameter(torch.ones(4, 4))


def remove_a_parameter(own: KernelOptimizer, params: list[Parameter]) -> None:
    del own.param_groups[0]["params"][1]


def write_weights(own: KernelOptimizer, params: list[Parameter]) -> None:
    with torch.no_grad():
        for p in params:
            p.mul_(2)


def change_options(own: KernelOptimizer, params: list[Parameter]) -> None:
    own.param_groups[0] |= {"lr": 0.5, "seed": 9, "maximize": True, "betas": (0.5, 0.6)}


def keep_anew(own: KernelOptimizer, params: list[Parameter]) -> None:
    keep_weights(own, "split", seed=11)


CHANGES: tuple[Change, ...] = (
    replace_data,
    share_one_memory,
    transpose,
    replace_moment,
    replace_data_of_moment,
    free_the_state,
    drop_the_state,
    swap_states,
    load_a_state,
    count_otherwise,
    count_in_fp64,
    add_a_group,
    replace_a_parameter,
    remove_a_parameter,
    write_weights,
    change_options,
    keep_anew,
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(("kind", "moments"), [("split", "fp32"), ("master", "e4m3"), ("stochastic", "bf16")])
def test_steps_after_a_change_are_those_of_a_fresh_optimizer(kind: str, moments: str, change: Change) -> None:
    own, params = optimizer(kind, moments)
    twin, twins = optimizer(kind, moments)
    for step in range(6):
        if step == 3:
            change(own, params)
            change(twin, twins)
        for each in (own, twin):
            set_gradients(each, step)
        forget(twin)
        own.step(factor=0.5)
        twin.step(factor=0.5)
    for ours, theirs in zip(bits(own), bits(twin), strict=True):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())


def test_gradients_of_any_kind_and_place_may_follow_each_other() -> None:
    own, params = optimizer("split", "bf16")
    twin, _ = optimizer("split", "bf16")
    for step in range(8):
        for each in (own, twin):
            set_gradients(each, step)
            first, last = each.param_groups[0]["params"][0], each.param_groups[0]["params"][-1]
            if step % 2:
                first.grad_dtype = None
                first.grad = first.grad.float()
                last.grad = last.grad.t().contiguous().t()
            if step % 3 == 2:
                first.grad = None
        forget(twin)
        own.step()
        twin.step()
        assert all(map(torch.equal, bits(own), bits(twin)))
    assert own.state[params[0]]["step"] == 6
    assert own.state[params[1]]["step"] == 8


def test_another_shape_is_refused_and_nothing_is_stepped() -> None:
    own, params = optimizer("split", "fp32")
    set_gradients(own, 0)
    own.step()
    set_gradients(own, 1)
    params[0].data = params[0].data[:4].clone()
    before = params[1].detach().clone()
    with pytest.raises(ValueError, match=r"lies `extra`, torch.int16 of the same shape"):
        own.step()
    assert torch.equal(params[1], before)
    assert own.state[params[1]]["step"] == 1


def test_the_same_memory_in_another_shape_is_refused() -> None:
    own, params = optimizer("split", "fp32")
    set_gradients(own, 0)
    own.step()
    set_gradients(own, 1)
    params[-1].data = params[-1].data.view(4, 16)
    with pytest.raises(ValueError, match=r"slot 4: the gradient is torch.float32 \[8, 8\]"):
        own.step()
    set_gradients(own, 1)
    own.step()  # the moments have as many elements
    assert own.state[params[-1]]["step"] == 2


def test_the_same_memory_of_another_dtype_is_refused() -> None:
    own, params = optimizer("split", "fp32")
    set_gradients(own, 0)
    own.step()
    params[0].grad = None
    params[0].data = params[0].data.view(torch.float16)
    params[0].grad = torch.ones(8, 8, dtype=torch.float16)
    with pytest.raises((TypeError, ValueError), match="float16"):
        own.step()


def test_storage_that_was_freed_is_not_touched() -> None:
    """As sharding frees the memory of a parameter between its uses."""
    own, params = optimizer("master", "fp32")
    set_gradients(own, 0)
    own.step()
    set_gradients(own, 1)
    own.state[params[0]]["exp_avg"].resize_(0)
    with pytest.raises(ValueError, match="expected as many"):
        own.step()


def test_a_parameter_that_moves_to_another_device_is_not_stepped_where_it_lay() -> None:
    own, params = optimizer("master", "fp32")
    set_gradients(own, 0)
    own.step()
    old = params[-1].data
    before = old.clone()
    params[-1].grad = None
    torch.utils.swap_tensors(params[-1], Parameter(torch.empty(8, 8, device="meta")))
    set_gradients(own, 1)
    with pytest.raises(ValueError, match="expected one shape, and for all slots one device"):
        own.step()
    assert torch.equal(old, before)


@pytest.mark.parametrize("kind", ["master", "split", "kahan"])
def test_new_data_is_a_write_from_outside(kind: str) -> None:
    own, params = optimizer(kind, "fp32")
    set_gradients(own, 0)
    own.step()
    assert own.adopt_writes() == []
    params[0].data = params[0].data.clone()
    assert own.adopt_writes() == []  # the same values elsewhere
    params[0].data = torch.full((8, 8), 3.0, dtype=torch.bfloat16)
    own.param_groups[0]["lr"] = 0.0
    set_gradients(own, 1)
    own.step()
    assert (params[0] == 3).all()


def test_gradients_and_replaced_tensors_are_not_kept_alive() -> None:
    own, params = optimizer("master", "fp32")
    set_gradients(own, 0)
    own.step()
    gradient = weakref.ref(params[0].grad)
    moment = weakref.ref(own.state[params[0]]["exp_avg"])
    own.state[params[0]]["exp_avg"] = own.state[params[0]]["exp_avg"].clone()
    set_gradients(own, 1)
    own.step()
    gc.collect()
    assert gradient() is None
    assert moment() is None


def test_an_optimizer_goes_with_its_last_reference() -> None:
    own, params = optimizer("split", "fp32")
    set_gradients(own, 0)
    own.step()
    moment = weakref.ref(own.state[params[0]]["exp_avg"])
    gc.disable()
    try:
        del own
        assert moment() is None
    finally:
        gc.enable()


def test_a_copy_steps_its_own_tensors() -> None:
    own, params = optimizer("split", "fp32")
    set_gradients(own, 0)
    own.step()
    twin, _ = copy.deepcopy((own, params))
    set_gradients(twin, 1)
    before = [p.detach().clone() for p in params]
    twin.step()
    assert all(map(torch.equal, params, before))
    set_gradients(own, 1)
    own.step()
    assert all(map(torch.equal, bits(own), bits(twin)))
