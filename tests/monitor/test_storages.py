from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn.utils.rnn import pad_packed_sequence
from torch.testing._internal.two_tensor import TwoTensor

from mixprec.monitor import storage_bytes, storages_in


def test_storages_are_counted_once_wherever_they_are():
    layer = nn.Linear(10, 10)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 10)).sum().backward()
    optimizer.step()
    steps = 2 * 4
    weights = 110 * 4
    assert storage_bytes([*layer.parameters(), optimizer.state, layer.weight.t()]) == 3 * weights + steps


def test_a_view_keeps_the_whole():
    x = torch.zeros(1000)
    assert storage_bytes(x[3:5]) == 4000
    assert len(storages_in([x[3:5], x.view(10, 100).t(), x.numpy(), torch.from_numpy(x.numpy())])) == 1


@pytest.mark.parametrize("make", [torch.sparse_csr_tensor, torch.sparse_csc_tensor])
@pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta")
def test_a_compressed_tensor_is_its_indices_and_values(make: Callable[..., Tensor]):
    compressed, plain, values = torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.ones(2)
    assert storage_bytes(make(compressed, plain, values, size=(2, 2), check_invariants=True)) == 3 * 8 + 2 * 8 + 2 * 4


def test_a_coordinate_tensor_is_its_indices_and_values():
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), (2, 2), check_invariants=True)
    assert storage_bytes(sparse) == 4 * 8 + 2 * 4


def test_a_sparse_gradient_that_is_not_coalesced_counts():
    table = nn.Embedding(100, 8, sparse=True)
    table(torch.tensor([1, 1, 7])).sum().backward()
    assert table.weight.grad is not None
    assert storage_bytes(table.weight.grad) >= 3 * 8


class Reserved(Tensor):
    """A wrapper that only knows itself what is in it."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Reserved:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


def test_a_wrapper_is_what_it_wraps():
    assert storage_bytes(TwoTensor(torch.zeros(10), torch.zeros(10))) == 80
    assert storage_bytes(Reserved(torch.zeros(10))) == 40, "one that does not tell its parts"


def test_what_has_no_memory_counts_nothing():
    emptied = torch.zeros(10)
    emptied.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.zeros(10)
    assert storage_bytes([torch.zeros(10, device="meta"), fake, torch.zeros(0), emptied, None, "text", 3]) == 0


def test_packed_sequences_are_containers():
    packed = nn.utils.rnn.pack_sequence([torch.zeros(3), torch.zeros(2)])
    assert storage_bytes(pad_packed_sequence(packed)[0]) == 24
    assert storage_bytes(packed.data) == 20
