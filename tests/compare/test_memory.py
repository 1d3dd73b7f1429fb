from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mixprec.compare._memory import peak_memory, process_bytes, saved_activations


def test_views_of_one_storage_count_once_and_whole():
    x = torch.ones(1000, requires_grad=True)
    with saved_activations(nn.Module()) as saved:
        y = x * 1.0  # saves nothing: the other factor is a number
        halves = y[:500] * y[500:]  # saves two views of one storage of 4000 bytes
        _ = y[:10].exp()  # saves its result, 40 bytes
    assert halves.shape == (500,)
    assert saved.bytes == 4000 + 40


def test_parameters_and_their_views_do_not_count():
    layer = nn.Linear(64, 32, bias=False)
    x = torch.ones(8, 64, requires_grad=True)
    with saved_activations(layer) as saved:
        layer(x)  # saves x and the transposed weight
    assert saved.bytes == x.nbytes


def test_recomputation_saves_only_the_input():
    body = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    x = torch.ones(8, 64, requires_grad=True)
    with saved_activations(body) as plain:
        body(x)
    with saved_activations(body) as recomputed:
        checkpoint(body, x, use_reentrant=False)
    assert plain.bytes >= 3 * x.nbytes
    assert recomputed.bytes <= x.nbytes


def test_peak_is_what_was_alive_at_once():
    with peak_memory(torch.device("cpu"), lambda: 1000) as peak:
        for _ in range(10):
            a = torch.empty(100_000)
            del a
        a, b = torch.empty(100_000), torch.empty(50_000)
        del a, b
    assert peak.bytes == 1000 + 600_000


def test_the_process_is_larger_than_its_tensors():
    held = torch.ones(10_000_000)
    assert process_bytes() > held.nbytes
