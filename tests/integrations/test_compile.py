"""Converted models of transformers under torch.compile."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mixprec

from .models import batch, build, distance, step

# torch's compiler instantiates autograd functions itself, and its own imports use torch.jit.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning"),
    # The compiler's own look at its arguments, behind a graph break (transformers logs inside GPT-2).
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]


# The compiler takes its time by the layer; that a second one is traced as the first is shown with one model.
ONE_LAYER = {"llama": {"num_hidden_layers": 1}, "gpt2": {"n_layer": 1}}
TWO_LAYERS = {"llama": {}}


def compiled(
    kind: str, name: str, backend: str, layers: dict[str, dict[str, int]] = ONE_LAYER
) -> tuple[Any, dict[str, torch.Tensor]]:
    torch._dynamo.reset()
    model = build(kind, **layers[kind])
    mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
    outputs, gradients = step(torch.compile(model, backend=backend), batch(kind))
    return outputs, {n.removeprefix("_orig_mod."): g for n, g in gradients.items()}


def eager(kind: str, name: str, layers: dict[str, dict[str, int]] = ONE_LAYER) -> tuple[Any, dict[str, torch.Tensor]]:
    model = build(kind, **layers[kind])
    mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
    return step(model, batch(kind))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name", "layers"),
    [("llama", "bf16", TWO_LAYERS), ("gpt2", "fp16", ONE_LAYER), ("llama", "nvfp4", TWO_LAYERS)],
)
def test_traced_without_fusion_is_bit_equal(kind: str, name: str, layers: dict[str, dict[str, int]]) -> None:
    (outputs, want), (traced, got) = eager(kind, name, layers), compiled(kind, name, "aot_eager", layers)
    assert torch.equal(outputs.logits, traced.logits)
    assert set(got) == set(want)
    assert all(torch.equal(got[n], w) for n, w in want.items())


@pytest.mark.slow
@pytest.mark.parametrize(("name", "near"), [("mxfp8", 1e-5), ("bf16", 0.02)])
def test_inductor_is_near(name: str, near: float) -> None:
    # Inductor keeps intermediate results wider than 16 bits; casts of operands are opaque to it.
    (outputs, want), (fused, got) = eager("llama", name), compiled("llama", name, "inductor")
    torch.testing.assert_close(fused.logits, outputs.logits, rtol=near, atol=near)
    assert distance(got, want) < near


def test_compiled_before_conversion_is_refused() -> None:
    with pytest.raises(ValueError, match=r"compiled by torch.compile; the order is: mixprec.convert"):
        mixprec.convert(torch.compile(build("llama")), "bf16")
    model = build("llama")
    model.compile()
    with pytest.raises(ValueError, match=r"the model is compiled by torch.compile"):
        mixprec.convert(model, "bf16")
