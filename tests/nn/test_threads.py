"""Forward and backward passes from several threads: the numbers of a plain loop, bit for bit."""

from __future__ import annotations

import threading

import pytest
import torch

from mixprec import convert
from mixprec.specs import recipe
from tests.nn.models import tiny_gpt, tokens


@pytest.mark.parametrize("name", ["bf16", "fp8", "mxfp8", "fp8-rowwise"])
def test_evaluation_from_four_threads(name: str) -> None:
    model = tiny_gpt()
    convert(model, recipe(name, engine="emulated"))
    inputs = [tokens(seed) for seed in range(8)]
    with torch.no_grad():
        alone = [model(x) for x in inputs]
    together: list[torch.Tensor | None] = [None] * len(inputs)
    start = threading.Barrier(4)

    def work(first: int) -> None:
        start.wait()
        with torch.no_grad():
            for _ in range(3):
                for i in range(first, len(inputs), 4):
                    together[i] = model(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True) if b is not None)
    assert None not in together


@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_gradients_from_two_threads(name: str) -> None:
    model = tiny_gpt()
    convert(model, recipe(name, engine="emulated"))
    inputs = [tokens(seed) for seed in range(4)]
    names = [n for n, p in model.named_parameters() if p.requires_grad]

    def gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(model(x).float().square().mean(), [model.get_parameter(n) for n in names])

    alone = [gradients(x) for x in inputs]
    together: dict[int, tuple[torch.Tensor, ...]] = {}
    start = threading.Barrier(2)

    def work(first: int) -> None:
        start.wait()
        for i in range(first, len(inputs), 2):
            together[i] = gradients(inputs[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for i, one in enumerate(alone) for a, b in zip(one, together[i], strict=True))
