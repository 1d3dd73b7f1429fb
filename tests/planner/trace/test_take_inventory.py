"""The products of a step: shapes by hand, and FLOPs as an audit counts them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.compare import load_workload
from mixprec.planner import Inventory, take_inventory
from mixprec.training import prepare


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: Any) -> None:
        super().__init__()
        self.cells = kind(8, 16, batch_first=True, **options)
        self.out = nn.Linear(32 if options.get("bidirectional") else 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cells(x)[0])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.inner = nn.Embedding(11, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(self.tokens(x)))


class Functions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.stack = nn.Parameter(torch.randn(3, 8, 5))

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight)
        return torch.einsum("btk,ekj->btej", (y @ y.mT).softmax(-1) @ y, self.stack)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(4, 8, 3, groups=2, stride=2)
        self.transposed = nn.ConvTranspose2d(8, 6, 3, stride=2, groups=2)
        self.flat = nn.Conv1d(6, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.flat(self.transposed(self.grouped(x)).flatten(2))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(checkpoint(self.inner, x, use_reentrant=False))  # pyright: ignore[reportArgumentType]


class Experts(nn.Module):
    """Routes by the data, so that shapes depend on values."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(-1, 8)
        chosen, y = self.gate(x).argmax(-1), self.gate(x).sum(-1, keepdim=True).expand_as(x)
        for i, expert in enumerate(self.experts):
            rows = (chosen == i).nonzero()[:, 0]
            y = y.index_add(0, rows, expert(x[rows]))
        return y


class Grouped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.first = nn.Parameter(torch.randn(2, 16, 16)), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return F.grouped_mm(self.first(x), self.weight, offs=torch.tensor([4, 8], dtype=torch.int32))


class Attention(nn.Module):
    def __init__(self, *, need_weights: bool) -> None:
        super().__init__()
        self.attn, self.need_weights = nn.MultiheadAttention(16, 4, batch_first=True), need_weights

    def forward(self, x: Tensor) -> Tensor:
        return self.attn(x, x, x, need_weights=self.need_weights)[0]


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "tied weights": lambda: (Tied(), torch.randint(11, (4, 5))),
    "LSTM": lambda: (Recurrent(nn.LSTM), torch.randn(4, 5, 8)),
    "LSTM both ways": lambda: (Recurrent(nn.LSTM, bidirectional=True, num_layers=2), torch.randn(4, 5, 8)),
    "GRU": lambda: (Recurrent(nn.GRU), torch.randn(4, 5, 8)),
    "multi-head": lambda: (Attention(need_weights=False), torch.randn(2, 5, 16)),
    "multi-head with weights": lambda: (Attention(need_weights=True), torch.randn(2, 5, 16)),
    "functions": lambda: (Functions(), torch.randn(2, 6, 8)),
    "convolutions": lambda: (Convolutions(), torch.randn(2, 4, 8, 8)),
    "checkpointed": lambda: (Checkpointed(), torch.randn(5, 8, requires_grad=True)),
    "experts": lambda: (Experts(), torch.randn(2, 6, 8)),
    "grouped": lambda: (Grouped(), torch.randn(8, 16)),
}


def square(model: nn.Module, batch: Tensor) -> Tensor:
    return model(batch).square().mean()


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def shapes(found: Inventory, site: str) -> dict[str, tuple[int, int, int, int]]:
    return {p.gemm: (p.batch, p.m, p.n, p.k) for p in found.products if p.site == site and not p.recomputed}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_flops_are_those_of_an_audit(name: str, recipe: str) -> None:
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    found = take_inventory(model, square, batch)
    trained = copy.deepcopy(model)
    session = prepare(trained, sgd(trained.parameters()), recipe)
    session.step(square(trained, batch))
    assert found.flops == session.audit().flops > 0


@pytest.mark.parametrize("name", ["gpt", "resnet"])
def test_workloads(name: str) -> None:
    workload = load_workload(name).build(0, "cpu")
    batch = workload.batches(0)
    found = take_inventory(workload.model, workload.loss, batch, optimizer=workload.optimizer)
    trained = copy.deepcopy(workload.model)
    session = prepare(trained, workload.optimizer(trained.parameters()), "fp32")
    session.step(workload.loss(trained, batch))
    audit = session.audit()
    assert found.flops == audit.flops
    by_site = {site: sum(p.flops for p in found.products if p.site == site) for site in {r.site for r in audit.rows}}
    for site, flops in by_site.items():
        if flops:  # an audit in fp32 tells attention by the module alone
            assert flops == sum(row.flops for row in audit.rows if row.site == site)
    assert sum(parameter.elements for parameter in found.parameters) == session.memory().parameters
    assert not found.notes


def test_a_linear_layer_by_hand() -> None:
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    found = take_inventory(model, square, torch.ones(3, 16, 8))
    assert shapes(found, "2") == {"fprop": (1, 48, 2, 4), "dgrad": (1, 48, 4, 2), "wgrad": (1, 2, 4, 48)}
    assert shapes(found, "0") == {"fprop": (1, 48, 4, 8), "wgrad": (1, 4, 8, 48)}  # the batch needs no gradient
    assert [p.kind for p in found.products if p.gemm == "fprop"] == ["Linear", "Linear"]
    relu = next(t for t in found.traffic if t.operation == "relu")
    assert (relu.site, relu.pass_, relu.read, relu.written, relu.calls) == ("1", "forward", 768, 768, 1)
    assert found.samples == 3


def test_a_convolution_by_hand() -> None:
    found = take_inventory(*_with_loss(Convolutions(), torch.randn(2, 4, 8, 8, requires_grad=True)))
    # 2 images of 3 x 3 positions, 2 groups of 2 to 4 channels, kernels of 9.
    assert shapes(found, "grouped") == {"fprop": (2, 18, 4, 18), "dgrad": (2, 18, 18, 4), "wgrad": (2, 4, 18, 18)}
    # The same positions, 4 channels to 3 by 9.
    assert shapes(found, "transposed") == {"fprop": (2, 18, 27, 4), "dgrad": (2, 18, 4, 27), "wgrad": (2, 27, 4, 18)}


def test_attention_has_the_sites_of_rules() -> None:
    found = take_inventory(*_with_loss(Attention(need_weights=True), torch.randn(2, 5, 16)))
    kinds = {p.site: p.kind for p in found.products}
    assert kinds == {"attn.in_proj": "Linear", "attn.qk": "qk", "attn.pv": "pv", "attn.out_proj": "Linear"}
    assert shapes(found, "attn.qk") == {"fprop": (8, 5, 5, 4), "dgrad": (8, 5, 4, 5), "wgrad": (8, 4, 5, 5)}
    fused = take_inventory(*_with_loss(Attention(need_weights=False), torch.randn(2, 5, 16)))
    assert [p.calls for p in fused.products if p.site == "attn.qk" and p.gemm == "fprop"] == [2]


def test_functions_with_weights_are_told_by_the_module() -> None:
    found = take_inventory(*_with_loss(Functions(), torch.randn(2, 6, 8)))
    assert {(p.site, p.kind) for p in found.products} == {
        ("<model>", "Linear"),
        ("matmul", "matmul"),
        ("<model>", "grouped_mm"),
    }


def test_recomputed_products_are_apart() -> None:
    found = take_inventory(*_with_loss(Checkpointed(), torch.randn(5, 8, requires_grad=True)))
    assert {p.site for p in found.products if p.recomputed} == {"inner.0"}  # what follows it saves nothing of it


def test_shared_modules_run_twice_and_count_once() -> None:
    layer = nn.Linear(8, 8)
    found = take_inventory(*_with_loss(nn.Sequential(layer, nn.Tanh(), layer), torch.ones(4, 8)))
    assert [(p.site, p.calls) for p in found.products if p.gemm == "fprop"] == [("0", 2)]
    assert [(p.name, p.also) for p in found.parameters] == [("0.weight", ("2.weight",)), ("0.bias", ("2.bias",))]


def test_a_real_step_where_values_are_asked_for() -> None:
    model, batch = Experts(), torch.randn(2, 6, 8)
    before = copy.deepcopy(model.state_dict())
    state = torch.get_rng_state()
    found = take_inventory(model, square, batch)
    assert "one real step" in found.notes[0]
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert torch.equal(state, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())
    assert sum(p.m for p in found.products if p.site.startswith("experts") and p.gemm == "fprop") == 12


def test_the_meta_device() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2**15, 2**15), nn.Linear(2**15, 1))
    found = take_inventory(*_with_loss(model, torch.empty(64, 2**15, device="meta")))
    assert found.flops == 2 * 64 * (2 * 2**30 + 3 * 2**15)


def test_the_optimizer_is_traced() -> None:
    model = nn.Linear(8, 4)
    found = take_inventory(model, square, torch.ones(2, 8), optimizer=sgd)
    update = [t for t in found.traffic if t.pass_ == "update"]
    assert {t.site for t in update} == {"<optimizer>"}
    assert sum(t.written for t in update) == 3 * 144  # momentum times factor, plus gradient; the weight


def test_a_converted_model_is_traced_as_it_was() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    before = take_inventory(model, square, torch.ones(4, 32))
    prepare(model, sgd(model.parameters()), "mxfp8")
    assert take_inventory(model, square, torch.ones(4, 32)).products == before.products


def test_no_product() -> None:
    with pytest.raises(ValueError, match="LayerNorm: its training step multiplies no matrices"):
        take_inventory(nn.LayerNorm(8), square, torch.randn(4, 8))


def test_no_loss() -> None:
    with pytest.raises(ValueError, match=r"shape \[4, 8\].*expected one number with a graph"):
        take_inventory(nn.Linear(8, 8), lambda model, batch: model(batch), torch.randn(4, 8))


def _with_loss(model: nn.Module, batch: Tensor) -> tuple[nn.Module, Callable[[nn.Module, Tensor], Tensor], Tensor]:
    return model, square, batch
