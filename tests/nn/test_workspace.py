"""Memory of a pass: reused from product to product and step to step, given back after an evaluation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.nn._attention import AttentionArguments, attention
from mixprec.nn._huge_pages import empty_in_large_pages
from mixprec.nn._site import ConversionState
from mixprec.nn._user_regions import ATTRIBUTE
from mixprec.specs import recipe


def _buffers(model: nn.Module) -> dict[str, int]:
    state: ConversionState = model.__dict__[ATTRIBUTE]
    return {slot: buffer.data_ptr() for slot, buffer in state.current.workspace._buffers.items()}


@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 19, (1 << 19) + 1, 3_000_001])
def test_memory_in_large_pages_is_plain_writable_memory(size: int) -> None:
    memory = empty_in_large_pages(size)
    memory.fill_(3.0)
    assert memory.shape == (size,)
    assert memory.dtype == torch.float32
    assert memory.is_contiguous()
    assert bool((memory == 3.0).all())


def test_a_matrix_of_a_large_page_begins_at_one() -> None:
    assert empty_in_large_pages(1 << 20).data_ptr() % (1 << 21) == 0


@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_training_keeps_the_memory_and_an_evaluation_gives_it_back(name: str) -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    conversion = convert(model, recipe(name, engine="emulated"))

    def step() -> None:
        model(torch.ones(8, 64)).sum().backward()

    step()
    step()
    before = _buffers(model)
    step()
    assert before
    assert _buffers(model) == before
    with torch.no_grad():
        model(torch.ones(8, 64))
    assert not _buffers(model)
    step()
    assert _buffers(model)
    state: ConversionState = model.__dict__[ATTRIBUTE]
    conversion.restore()
    assert not state.current.workspace._buffers


def _attend(layout: str, is_causal: bool) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    model = nn.Identity()
    convert(model, recipe("bf16", engine="emulated"))
    shape = (2, 3, 5, 8) if layout == "heads first" else (2, 5, 3, 8)
    leaves = [torch.randn(shape, generator=generator, requires_grad=True) for _ in range(3)]
    heads = leaves if layout == "heads first" else [t.transpose(1, 2) for t in leaves]
    state: ConversionState = model.__dict__[ATTRIBUTE]
    y = attention(heads[0], heads[1], heads[2], AttentionArguments(is_causal=is_causal), state)
    y.backward(torch.randn(y.shape, generator=generator).bfloat16())
    return [y.detach(), *(t.grad for t in leaves if t.grad is not None)]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("layout", ["heads first", "positions first"])
def test_attention_through_the_workspace_has_the_bits_of_new_memory(
    layout: str, is_causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = _attend(layout, is_causal)
    monkeypatch.setattr("mixprec.nn._workspace.Workspace.take", lambda self, slot, shape, device: None)
    for a, b in zip(shared, _attend(layout, is_causal), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
