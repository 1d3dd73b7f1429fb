"""Models whose parameters have 16 bits, under recipes whose activations have others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import mixprec
from mixprec.specs import LayerPrecision, Recipe, Rule


def _model(dtype: torch.dtype) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.Linear(32, 32)).to(dtype)


@pytest.mark.parametrize(
    ("recipe", "dtype", "way_out"),
    [
        ("mxfp8", torch.bfloat16, "compute_dtype='bf16'"),
        ("nvfp4", torch.float16, "compute_dtype='fp16'"),
        ("bf16", torch.float16, "the recipe 'fp16'"),
    ],
)
def test_a_norm_of_another_dtype_is_refused_by_name(recipe: str, dtype: torch.dtype, way_out: str) -> None:
    with pytest.raises(ValueError, match=rf"1 \(LayerNorm\) has .* parameters.*{way_out}"):
        mixprec.convert(_model(dtype), recipe)


def test_a_layer_that_a_rule_leaves_wide_is_refused_too() -> None:
    rules = (Rule(match="0", precision=None), Rule(precision=LayerPrecision.uniform("mxfp8")))
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32)).bfloat16()
    with pytest.raises(ValueError, match=r"0 \(Linear\) has bf16 parameters"):
        mixprec.convert(model, Recipe(name="tried", rules=rules))


@pytest.mark.parametrize("recipe", ["mxfp8", "nvfp4", "fp8"])
def test_what_the_message_says_to_do_works(recipe: str) -> None:
    model = _model(torch.bfloat16)
    options = mixprec.recipe(recipe, compute_dtype="bf16", engine="emulated")
    session = mixprec.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), options)
    assert session.step(model(torch.randn(4, 32)).square().sum()).applied
    assert model(torch.randn(4, 32)).isfinite().all()


def test_fp32_leaves_the_model_as_it_is() -> None:
    model = _model(torch.bfloat16)
    mixprec.convert(model, "fp32")
    assert model(torch.randn(4, 32).bfloat16()).dtype == torch.bfloat16
