"""Sums of fp16 tensors are the same function whether or not gradients are recorded."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mixprec.nn import convert
from mixprec.specs import recipe

LARGE = 4e4  # twice this leaves fp16's range


class Block(nn.Module):
    """A residual block that adds in one of the ways that models use."""

    def __init__(self, spelling: str) -> None:
        super().__init__()
        self.first, self.second, self.spelling = nn.Linear(8, 8), nn.Linear(8, 8), spelling

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        branch = self.second(h.relu())
        if self.spelling == "in place":
            h = h * 1
            h += branch
            return h
        if self.spelling == "addmm":
            return torch.addmm(branch, h, torch.eye(8))
        return h + branch if self.spelling == "operator" else torch.sub(h, -branch)


class Stack(nn.Module):
    """Blocks, perhaps checkpointed; keeps what each gave."""

    def __init__(self, spelling: str, offset: float, *, checkpointed: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block(spelling), Block(spelling)])
        self.checkpointed, self.sums = checkpointed, list[Tensor]()
        for block in self.blocks:
            nn.init.constant_(block.first.bias, offset)
            nn.init.constant_(block.second.bias, offset)

    def forward(self, x: Tensor) -> Tensor:
        self.sums = []
        for block in self.blocks:
            y: Tensor = checkpoint(block, x, use_reentrant=True) if self.checkpointed else block(x)
            self.sums.append(y.detach().clone())
            x = y.float().tanh()
        return x


SPELLINGS = ["operator", "difference", "in place", "addmm"]


def converted(spelling: str, offset: float, residual: str, *, checkpointed: bool = False) -> Stack:
    model = Stack(spelling, offset, checkpointed=checkpointed)
    convert(model, recipe("fp16", residual=residual, engine="emulated"))
    return model


@pytest.mark.parametrize("residual", ["fp32", "fp16"])
@pytest.mark.parametrize("offset", [0.5, LARGE])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_training_and_evaluation_add_alike(spelling: str, offset: float, residual: str) -> None:
    model, x = converted(spelling, offset, residual), torch.randn(4, 8)
    model(x)
    trained = model.sums
    with torch.no_grad():
        model(x)
    evaluated = model.sums
    model.blocks[0].first.requires_grad_(False)
    model(x)
    for first, *others in zip(trained, evaluated, model.sums, strict=True):
        assert {t.dtype for t in others} == {first.dtype}
        assert all(torch.equal(first, t) for t in others)
    if residual == "fp32":
        assert all(torch.isfinite(t).all() for t in trained)


@pytest.mark.parametrize("residual", ["fp32", "fp16"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_reentrant_checkpoint_adds_alike(spelling: str, residual: str) -> None:
    x = torch.randn(4, 8)
    models = [converted(spelling, 0.5, residual, checkpointed=checkpointed) for checkpointed in (False, True)]
    inputs = [x.clone().requires_grad_() for _ in models]
    for model, given in zip(models, inputs, strict=True):
        model(given).sum().backward()
    assert torch.equal(inputs[0].grad, inputs[1].grad)
    for plain, again in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(plain.grad, again.grad)


def test_a_mask_that_is_broadcast_keeps_the_row_in_a_16_bit_stream() -> None:
    class Masked(nn.Module):
        def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
            return (scores.half() + mask.half()).softmax(-1)

    model = Masked()
    convert(model, recipe("fp16", residual="fp16"))
    y = model(torch.tensor([[[-20.0, -30.0]]]), torch.full((1, 2), torch.finfo(torch.float16).min))
    torch.testing.assert_close(y, torch.tensor([[[0.99995, 4.54e-5]]]), atol=1e-5, rtol=0)
