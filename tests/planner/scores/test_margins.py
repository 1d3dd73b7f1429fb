"""What errors as large as a term's margin do to the loss, against the loss itself."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mixprec.nn import convert
from mixprec.planner import measure_scores
from mixprec.planner.scores._margins import beyond_second
from mixprec.specs import Recipe, Rule

from .jobs import MXFP4, cross_entropy


def test_two_classes_are_told_exactly() -> None:
    torch.manual_seed(0)
    margin, moved = 4 * torch.randn(2, 1000, dtype=torch.float64)
    missed = torch.sigmoid(-margin)
    changes = -missed * moved
    exact = F.softplus(-(margin + moved)) - F.softplus(-margin)
    second = changes + 0.5 * missed * (1 - missed) * moved.square()
    kept = missed > 1e-6
    assert float(beyond_second(changes, missed)) == pytest.approx((exact - second)[kept].sum().item(), rel=1e-9)


def test_no_change_and_unknown_margins_add_nothing() -> None:
    q = torch.tensor([0.0, 1e-9, 0.3, 1.0], dtype=torch.float64)
    assert beyond_second(torch.zeros(4, dtype=torch.float64), q) == 0.0
    assert beyond_second(torch.ones(4, dtype=torch.float64), None) == 0.0
    assert beyond_second(torch.ones(8, dtype=torch.float64), q) == 0.0


def test_change_of_a_model_that_is_sure() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(32, 2, bias=False), torch.randn(16384, 32)
    with torch.no_grad():
        model.weight.mul_(30)
        margin = model(x).diff(dim=-1)[:, 0].abs()
        x = x[(margin > 5) & (margin < 12)]
        batch = x, model(x).argmax(-1)
    score = measure_scores(model, cross_entropy, [batch], [MXFP4]).groups[0].candidates["mxfp4"]
    conversion = convert(holder := nn.Sequential(model), Recipe(name="one", rules=(Rule(precision=MXFP4.precision),)))
    with torch.no_grad():
        rounded = float(cross_entropy(holder, batch))
        conversion.restore()
        change = rounded - float(cross_entropy(model, batch))
    assert score.slope + score.curvature + score.beyond == pytest.approx(change, rel=0.1)
    assert score.slope + score.curvature < change / 2
