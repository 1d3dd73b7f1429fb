"""What a recipe asks of a model, and which sites no engine of modules can take."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import mixprec
from mixprec.integrations._survey import survey
from mixprec.planner import take_inventory
from mixprec.specs import LayerPrecision, Recipe, Rule

LOW = LayerPrecision.uniform("mxfp8 rceil")


class Everything(nn.Module):
    """One of each kind: a linear layer, a convolution, attention, a function's call, a class of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc, self.own = nn.Conv1d(32, 32, 3, padding=1), nn.Linear(32, 32), Own(32, 32)
        self.attention, self.weight = nn.MultiheadAttention(32, 2, batch_first=True), nn.Parameter(torch.eye(32))
        self.shared = self.again = nn.Linear(32, 32)
        self.hooked = nn.Linear(32, 32)
        self.hooked.register_forward_hook(lambda module, given, output: output)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        x = self.own(self.fc(x)) + self.attention(x, x, x, need_weights=False)[0]
        x = self.again(self.shared(x)) + self.hooked(x)
        return F.linear(x @ x.transpose(1, 2) @ x, self.weight)


class Own(nn.Linear):
    """A subclass, whose forward may do anything."""


def surveyed(model: nn.Module, wanted: Recipe, keep: tuple[str, ...] = ()) -> dict[str, str]:
    """Why each site is refused, by site."""
    found = survey(model, wanted, take_inventory(model, lambda m, x: m(x).sum(), torch.randn(2, 8, 32)), keep)
    return {refusal.site: refusal.why for refusal in found.refused}


def test_every_site_that_is_no_linear_module_is_refused_by_name() -> None:
    kinds = tuple(Rule(type=kind, precision=LOW, required=False) for kind in ("qk", "pv", "matmul"))
    wanted = Recipe(name="all", rules=(*kinds, Rule(precision=LOW)))
    model, x = Everything(), torch.randn(2, 8, 32)
    found = survey(model, wanted, take_inventory(model, lambda m, x: m(x).sum(), x))
    assert [layer.path for layer in found.asked] == ["fc"]
    why = {refusal.site: refusal.why for refusal in found.refused}
    assert "it is a Conv1d" in why["conv"]
    assert "registered under 2 paths (shared, again)" in why["shared"]
    assert "has hooks" in why["hooked"]
    assert any("a call of Linear in Everything" in text for text in why.values())
    assert any("product of activations (matmul)" in text for text in why.values())
    assert any("product of activations (qk)" in text for text in why.values())
    assert any(site.startswith("attention") and "MultiheadAttention" in text for site, text in why.items())
    assert "class of its own" in why["own"] or "Own" in why["own"]


def test_nothing_is_lost_between_asked_wide_kept_and_refused() -> None:
    model, x = Everything(), torch.randn(2, 8, 32)
    inventory = take_inventory(model, lambda m, x: m(x).sum(), x)
    wanted = Recipe(name="some", rules=(Rule(match="fc", precision=LOW), Rule(match="conv", precision=LOW)))
    found = survey(model, wanted, inventory, keep=["conv"])
    told = {*(layer.path for layer in found.asked), *found.wide, *found.kept, *(r.site for r in found.refused)}
    assert {product.site for product in inventory.products if product.gemm == "fprop"} <= told
    assert found.kept == ("conv",)


def test_casts_to_the_compute_dtype_are_none() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    rules = (Rule(match="0", precision=LayerPrecision.uniform("bf16")), Rule(match="1", precision=LOW))
    wanted = Recipe(name="mine", compute_dtype="bf16", rules=rules)
    found = survey(model, wanted, take_inventory(model, lambda m, x: m(x).sum(), torch.randn(4, 32)))
    assert found.wide == ("0",)
    assert [layer.path for layer in found.asked] == ["1"]


@pytest.mark.parametrize(
    ("wanted", "keep", "told"),
    [
        (Recipe(name="bf16", compute_dtype="bf16"), (), "'bf16' gives casts to no layer"),
        (Recipe(name="mine", rules=(Rule(precision=LOW),)), ("head",), "unknown site with casts to keep wide: 'head'"),
    ],
)
def test_what_changes_nothing_is_refused(wanted: Recipe, keep: tuple[str, ...], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        surveyed(nn.Sequential(nn.Linear(32, 32)), wanted, keep)


def test_a_converted_model_is_refused() -> None:
    model, wanted = nn.Sequential(nn.Linear(32, 32)), Recipe(name="mine", rules=(Rule(precision=LOW),))
    inventory = take_inventory(model, lambda m, x: m(x).sum(), torch.randn(4, 32))
    mixprec.convert(model, wanted)
    with pytest.raises(ValueError, match="is converted by mixprec already"):
        survey(model, wanted, inventory)


def test_the_whole_model_cannot_be_replaced() -> None:
    model = nn.Linear(32, 32)
    assert "whole model" in next(iter(surveyed(model, Recipe(name="mine", rules=(Rule(precision=LOW),))).values()))


def test_what_is_the_loops_to_do_is_told() -> None:
    model = nn.Sequential(nn.Linear(32, 32))
    wanted = Recipe(name="mine", compute_dtype="bf16", weights="kahan", rules=(Rule(precision=LOW),))
    found = survey(model, wanted, take_inventory(model, lambda m, x: m(x).sum(), torch.randn(4, 32)))
    assert any("bf16" in note for note in found.notes)
    assert any("weights as 'kahan'" in note for note in found.notes)
