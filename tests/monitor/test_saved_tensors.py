from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.monitor import saved_tensors, storages_in
from tests.monitor.live_bytes import run_and_count

X = torch.randn(8, 16, 64)


def saved_bytes(loss: Tensor, *without: object) -> int:
    left_out = storages_in(without)
    return sum(s.bytes for key, s in saved_tensors(loss).storages.items() if key not in left_out)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 16)).transpose(1, 2) for part in self.project(x).chunk(3, dim=-1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Recomputed(nn.Module):
    def __init__(self, body: nn.Module, use_reentrant: bool) -> None:
        super().__init__()
        self.first, self.body, self.use_reentrant = nn.Linear(64, 64), body, use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.body, self.first(x), use_reentrant=self.use_reentrant)


def mlp() -> nn.Module:
    wide = (nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.5), nn.LayerNorm(256))
    return nn.Sequential(*wide, nn.Linear(256, 64), nn.ReLU())


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": mlp,
    "attention": Attention,
    "convolutions": lambda: nn.Sequential(nn.Conv1d(16, 32, 3), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
    "gru": lambda: nn.GRU(64, 32),
    "recomputed": lambda: Recomputed(mlp(), use_reentrant=False),
    "recomputed, reentrant": lambda: Recomputed(mlp(), use_reentrant=True),
}


def run(model: nn.Module) -> Tensor:
    y: Any = model(X)
    return (y[0] if isinstance(y, tuple) else y).square().mean()


@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_a_forward_pass_left_allocated(name: str):
    model = MODELS[name]()
    run(model)  # what is made once
    buffers = [buffer.clone() for buffer in model.buffers()]
    loss, left, _ = run_and_count(lambda: run(model))
    held = saved_bytes(loss, X, *model.parameters(), *model.buffers())
    assert held + storages_in(loss)[("cpu", loss.untyped_storage().data_ptr())] == left
    assert held > 10_000
    del buffers


@pytest.mark.parametrize("name", MODELS)
def test_nothing_that_the_graph_holds_is_missed_by_hooks(name: str):
    packed: dict[Any, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        packed.update(storages_in(tensor))
        return tensor

    model = MODELS[name]()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = run(model)
    found = {key: storage.bytes for key, storage in saved_tensors(loss).storages.items()}
    assert {key: n for key, n in found.items() if key in packed} == packed
    beyond = sum(found.values()) - sum(packed.values())
    states = storages_in(torch.get_rng_state()).values()
    assert beyond == (sum(states) if name.startswith("recomputed") else 0), "the random state that a checkpoint keeps"


class Kept(torch.autograd.Function):
    """Keeps tensors as no hook sees them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.codes, ctx.more = x.to(torch.uint8), {"scales": [x[0].clone()]}
        ctx.save_for_backward(x.to(torch.int8))
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs[0] * ctx.codes.float()


def test_attributes_of_a_functions_context_count():
    x = torch.ones(10, 20, requires_grad=True)
    assert saved_bytes(Kept.apply(x).sum()) == 200 + 200 + 20 * 4


def test_packed_tensors_are_counted_as_they_are_packed_and_never_unpacked():
    def refuse(_: object) -> Tensor:
        raise AssertionError("unpacked")

    x = torch.randn(1000, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t.shape, [t.to(torch.float16)]), refuse):
        loss = x.exp().sum()
    assert saved_bytes(loss) == 2000


def test_keyword_arguments_of_a_checkpoint_count():
    x = torch.randn(1000, requires_grad=True)
    factor = torch.randn(3000)
    loss = checkpoint(lambda x, factor: (x * factor[:1000]).exp().sum(), x, factor=factor, use_reentrant=False)
    states = sum(storages_in(torch.get_rng_state()).values())
    assert saved_bytes(loss) == 4000 + 12000 + states


def test_a_storage_belongs_to_the_first_node_that_saved_it():
    x = torch.ones(100, requires_grad=True)
    first = x.exp()  # saves its result
    second = first.sin()  # saves its input, the same
    found = saved_tensors(second.sum()).storages
    (storage,) = [s for s in found.values() if s.bytes == 400]
    assert first.grad_fn is not None
    assert storage.number == first.grad_fn._sequence_nr()


def test_nodes_that_cannot_be_seen_into_are_told():
    x = torch.ones(4, 6, requires_grad=True)
    y = x * 1.0
    assert not saved_tensors(y.sum()).opaque
    y[:, :2].mul_(torch.ones(4, 2, requires_grad=True))
    assert saved_tensors(y.sum()).opaque == {"CopySlices"}


def test_a_graph_whose_backward_pass_has_run_holds_nothing():
    loss = run(mlp())
    loss.backward()
    assert saved_bytes(loss) == 0
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_what_is_not_reached_is_not_held():
    teacher, student = mlp(), mlp()
    loss = run(student)
    with_teacher = (student(X) - teacher(X).detach()).square().mean()
    difference = X.nbytes  # the square keeps the difference, where it kept the output
    assert saved_bytes(with_teacher, X) <= saved_bytes(loss, X) + difference


def test_it_changes_no_gradient():
    torch.manual_seed(0)
    model = Recomputed(mlp(), use_reentrant=False)
    gradients: list[list[Tensor]] = []
    for looks in (False, True):
        torch.manual_seed(1)
        loss = run(model)
        if looks:
            saved_tensors(loss)
        gradients.append(list(torch.autograd.grad(loss, list(model.parameters()))))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_a_long_chain_is_no_recursion():
    y = torch.ones(4, requires_grad=True)
    for _ in range(20_000):
        y = y + 1.0
    assert saved_bytes(y.sum()) == 0
