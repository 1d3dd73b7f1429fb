"""Products with sparse matrices are torch's own, in fp32; shapes that torch refuses are refused in its words."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import mixprec
from mixprec.compat.torch_amp import autocast

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {"coo": Tensor.to_sparse, "csr": Tensor.to_sparse_csr}
CALLS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "operator": lambda a, x: a @ x,
    "matmul": torch.matmul,
    "mm": torch.mm,
    "spmm": torch.spmm,
    "sparse.mm": torch.sparse.mm,
    "vector": lambda a, x: a @ x[:, 0],
    "mv": lambda a, x: torch.mv(a, x[:, 0]),
    "addmm": lambda a, x: torch.addmm(x, a, x),
    "from the right": lambda a, x: x.t() @ a,
}


def adjacency() -> Tensor:
    torch.manual_seed(0)
    return (torch.rand(16, 16) < 0.3) * torch.rand(16, 16)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_a_region_sums_in_fp32(call: str, layout: str) -> None:
    dense, x = adjacency(), torch.randn(16, 16, requires_grad=True)
    with autocast("cpu", torch.bfloat16):
        y = CALLS[call](LAYOUTS[layout](dense), x)
    wanted = (dense @ x.detach()[:, 0]) if call in ("vector", "mv") else None
    if wanted is None:
        wanted = x.detach().t() @ dense if call == "from the right" else dense @ x.detach()
        wanted = wanted + x.detach() if call == "addmm" else wanted
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), wanted.bfloat16().float(), atol=0, rtol=2**-7)
    y.float().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


class Graph(nn.Module):
    """Two graph convolutions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        return torch.spmm(a, self.second(torch.relu(a @ self.first(x))))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("recipe", ["bf16", "fp16", "mxfp8"])
def test_a_converted_graph_network(recipe: str, layout: str) -> None:
    model = Graph()
    plain, dense, x = copy.deepcopy(model), adjacency(), torch.randn(16, 32)
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.0), recipe, loss_scale="none")
    sparse = LAYOUTS[layout](dense)
    session.measure_next_step()
    y = model(x, sparse)
    wanted = plain(x, dense).detach()
    torch.testing.assert_close(y, wanted, atol=0.1 * float(wanted.abs().max()), rtol=0)
    assert session.step(y.square().mean()).applied
    audit = session.audit()
    assert audit is not None
    assert {row.format for row in audit.rows if row.gemm == "mm"} == {"fp32"}
    with torch.no_grad():  # sparse features
        features = model(LAYOUTS[layout](x), sparse)
    torch.testing.assert_close(features, wanted, atol=0.1 * float(wanted.abs().max()), rtol=0)


SHAPES: dict[str, Callable[[], Tensor]] = {
    "matmul": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    "mm": lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)),
    "mm of a vector": lambda: torch.mm(torch.ones(2), torch.ones(2, 3)),
    "bmm": lambda: torch.bmm(torch.ones(2, 2, 3), torch.ones(1, 3, 3)),
    "vector": lambda: torch.ones(2, 3) @ torch.ones(2),
    "batch": lambda: torch.ones(2, 2, 3) @ torch.ones(4, 3, 3),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_that_do_not_fit_are_refused_in_torchs_words(name: str) -> None:
    with pytest.raises(RuntimeError) as plain:
        SHAPES[name]()
    with pytest.raises(RuntimeError) as ours, autocast("cpu", torch.bfloat16):
        SHAPES[name]()
    assert str(ours.value) == str(plain.value)
