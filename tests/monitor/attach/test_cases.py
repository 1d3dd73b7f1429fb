"""Cases H1 and H2 as their statistics show them, in a plain loop."""

from __future__ import annotations

import torch
from torch import nn

import mixprec
import mixprec.monitor
from mixprec.monitor import Monitoring


class Last(nn.Module):
    """A module around tensors that are given."""

    def __init__(self, inner, add=None):
        super().__init__()
        self.inner, self.add = inner, add

    def forward(self, x):
        return self.inner(x if self.add is None else x + self.add)


def statistics_of(model, x):
    with mixprec.monitor(model, options=Monitoring(every=1)) as monitor:
        model(x)
        model(x)  # without an optimizer a step ends where the next pass begins
        return {(r.site, r.role): r for r in monitor.statistics()}


def test_a_probability_that_16_bits_make_one_is_seen_at_the_sigmoid():
    """H1: sigmoid(10) in bf16 is 1: the largest output is 1 itself, and its distance to 1 has become zero."""
    wide = statistics_of(Last(nn.Sigmoid()), torch.tensor([10.0]))["inner", "output"]
    narrow = statistics_of(Last(nn.Sigmoid()), torch.tensor([10.0], dtype=torch.bfloat16))["inner", "output"]
    assert wide.amax < 1.0
    assert (narrow.amax, narrow.cast) == (1.0, "bf16")


def test_a_row_of_minus_infinities_is_seen_before_the_softmax_makes_nan_of_it():
    """H2: the lowest fp16 number plus a negative score is -inf; two of them make a row of NaN."""
    lowest = torch.finfo(torch.float16).min
    scores = torch.tensor([[-20.0, -30.0], [-20.0, 3.0]], dtype=torch.float16)
    mask = torch.tensor([[lowest, lowest], [lowest, 0.0]], dtype=torch.float16)
    found = statistics_of(Last(nn.Softmax(-1), mask), scores)
    assert found["inner", "input"].nonfinite == 3
    assert found["inner", "output"].nonfinite == 2
