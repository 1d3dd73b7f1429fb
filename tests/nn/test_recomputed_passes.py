"""Checkpointed passes are repeated with their own random bits and scales, whoever ran in between, and wherever."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec import convert
from mixprec.specs import recipe

from .models import tiny_gpt, tokens

RECIPES = ["nvfp4", "fp4-all-the-way", "int8", "fp8-delayed", "mxfp8"]
Gradients = dict[str, Tensor]


def made(name: str, model: nn.Module) -> nn.Module:
    convert(model, recipe(name, engine="emulated"))
    return model


def collected(model: nn.Module) -> Gradients:
    found = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    return found


def equal(a: Gradients, b: Gradients) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def two_passes(model: nn.Module) -> None:
    """As contrastive losses and discriminators have them."""
    (loss(model, tokens(1)) + loss(model, tokens(2))).backward()


def the_same_input_twice(model: nn.Module) -> None:
    x = tokens(1)
    (loss(model, x) + 2 * loss(model, x)).backward()


def backward_in_another_thread(model: nn.Module) -> None:
    in_a_thread(loss(model, tokens(1)).backward)


def the_first_pass_later(model: nn.Module) -> None:
    first, second = loss(model, tokens(1)), loss(model, tokens(2))
    second.backward()
    with torch.no_grad():
        model(tokens(3))
    first.backward()


def kept_graph(model: nn.Module) -> None:
    first = loss(model, tokens(1))
    first.backward(retain_graph=True)
    second = loss(model, tokens(2))
    first.backward()
    second.backward()


def in_a_thread(work: Callable[[], object]) -> None:
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


LOOPS = [two_passes, the_same_input_twice, backward_in_another_thread, the_first_pass_later, kept_graph]


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of the evaluation in between
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", RECIPES)
def test_the_plain_loops_gradients(name: str, loop: Callable[[nn.Module], None], reentrant: bool) -> None:
    if loop is kept_graph and not reentrant:
        pytest.skip("torch keeps no recomputed tensors for a second backward pass of a graph")
    plain, recomputed = made(name, tiny_gpt()), made(name, tiny_gpt(reentrant))
    for _ in range(2):  # the second round has the histories of the first
        loop(plain)
        loop(recomputed)
        assert equal(collected(plain), collected(recomputed))


class Inner(nn.Module):
    """Two layers, whose checkpoint begins with functions of its own: no module sees the checkpoint's input."""

    def __init__(self, reentrant: bool | None, width: int = 32) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.fc1, self.fc2 = nn.Linear(width, width), nn.Linear(width, width)

    def body(self, x: Tensor) -> Tensor:
        return x + self.fc2(F.gelu(self.fc1(x.tanh())))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) if self.reentrant is None else checkpoint(self.body, x, use_reentrant=self.reentrant)  # type: ignore[return-value]


class Nested(nn.Module):
    """A checkpoint inside a checkpoint."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.inner = nn.Sequential(Inner(reentrant), Inner(reentrant))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) if self.reentrant is None else checkpoint(self.inner, x, use_reentrant=self.reentrant)  # type: ignore[return-value]


class Model(nn.Module):
    def __init__(self, part: Callable[[bool | None], nn.Module], reentrant: bool | None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(17, 32)
        self.parts = nn.ModuleList([part(reentrant) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for part in self.parts:
            x = part(x)
        return x


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # of the inner one
@pytest.mark.parametrize("part", [Inner, Nested])
@pytest.mark.parametrize("name", ["fp4-all-the-way", "fp8-delayed"])
def test_checkpoints_of_functions_and_in_one_another(name: str, part: type[nn.Module], reentrant: bool) -> None:
    plain, recomputed = made(name, Model(part, None)), made(name, Model(part, reentrant))
    for loop in (two_passes, backward_in_another_thread, the_same_input_twice):
        loop(plain)
        loop(recomputed)
        assert equal(collected(plain), collected(recomputed))


@pytest.mark.parametrize("reentrant", [True, False])
def test_from_several_threads(reentrant: bool) -> None:
    """Each thread runs passes of its own, one after the other; all backward passes run in a thread of their own."""
    plain, recomputed = made("fp4-all-the-way", tiny_gpt()), made("fp4-all-the-way", tiny_gpt(reentrant))
    inputs = [tokens(seed) for seed in range(6)]
    want = [loss(plain, x) for x in inputs]
    got: list[Tensor] = []
    in_a_thread(lambda: got.extend(loss(recomputed, x) for x in inputs[:2]))
    in_a_thread(lambda: got.extend(loss(recomputed, x) for x in inputs[2:4]))
    got.extend(loss(recomputed, x) for x in inputs[4:])
    assert all(torch.equal(a, b) for a, b in zip(want, got, strict=True))
    for i in (3, 0, 5, 1, 4, 2):  # one by one: a sum over threads has an order of its own
        want[i].backward()
        in_a_thread(got[i].backward)
        assert equal(collected(plain), collected(recomputed))


def test_what_cannot_be_told_is_refused() -> None:
    """Two threads number their nodes alike, and no module has seen the input of these checkpoints."""
    model = made("fp4-all-the-way", Model(Inner, False))
    losses: list[Tensor] = []
    for seed in range(2):
        in_a_thread(lambda seed=seed: losses.append(loss(model, tokens(seed))))
    with pytest.raises(RuntimeError, match=r"parts\.2\.fc1.*cannot tell.*several threads.*first thing"):
        sum(losses).backward()  # type: ignore[union-attr]


def test_a_pass_of_long_ago_is_refused() -> None:
    model = made("fp4-all-the-way", tiny_gpt(False))
    first = loss(model, tokens(1))
    for _ in range(200):
        loss(model, tokens(2)[:1, :2])
    with pytest.raises(RuntimeError, match=r"blocks\.1.*cannot tell"):
        first.backward()


def test_a_whole_model_in_a_reentrant_checkpoint_is_refused() -> None:
    """Its forward pass looks like an evaluation, which draws no bits."""
    model = made("fp4-all-the-way", nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)))
    x = torch.randn(4, 32, requires_grad=True)
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        checkpoint(model, x, use_reentrant=True).sum().backward()  # type: ignore[union-attr]
    y = checkpoint(model, x, use_reentrant=False)
    y.sum().backward()  # type: ignore[union-attr]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_begin_without_passes(again: Callable[[nn.Module], nn.Module]) -> None:
    model, plain = made("fp4-all-the-way", tiny_gpt(False)), made("fp4-all-the-way", tiny_gpt())
    for one in (model, plain):
        two_passes(one)
        one.zero_grad()
    other = again(model)
    two_passes(other)
    two_passes(plain)
    assert equal(collected(other), collected(plain))


def test_no_activation_is_kept_alive() -> None:
    model = made("fp4-all-the-way", tiny_gpt(False))
    held: list[torch.UntypedStorage] = []
    hook = model.get_submodule("blocks.0.fc1").register_forward_pre_hook(
        lambda module, args: held.append(args[0].untyped_storage())
    )
    loss(model, tokens(1)).backward()
    hook.remove()
    from torch.multiprocessing.reductions import StorageWeakRef

    refs = [StorageWeakRef(storage) for storage in held]
    held.clear()
    assert all(ref.expired() for ref in refs)


def test_a_region_kept_out_of_autocast_is_repeated_in_another_thread() -> None:
    class Apart(nn.Module):
        def __init__(self, reentrant: bool | None) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc, self.inner, self.reentrant = nn.Linear(32, 32), Inner(None), reentrant

        def forward(self, x: Tensor) -> Tensor:
            x = self.fc(x)
            with torch.autocast("cpu", enabled=False):
                return self.inner(x) if self.reentrant is None else checkpoint(self.inner, x, use_reentrant=False)  # type: ignore[return-value]

    x = torch.randn(4, 32)
    plain, recomputed = made("mxfp8", Apart(None)), made("mxfp8", Apart(False))
    loss(plain, x).backward()
    in_a_thread(loss(recomputed, x).backward)
    assert equal(collected(plain), collected(recomputed))
