from __future__ import annotations

import pytest
import torch
from torch.nn import Parameter

from mixprec.monitor import UpdateWatch


def run(watch, update, steps, active=True):
    findings = []
    for step in range(steps):
        params = list(watch.params.values())
        watch.before_step(params if active else [])
        with torch.no_grad():
            for p in params:
                p.add_(update)
        findings += [(step + 1, f.site) for f in watch.after_step()]
    return findings


def half(n, dtype=torch.bfloat16):
    return Parameter(torch.ones(n, dtype=dtype))


@pytest.mark.parametrize(("dtype", "update"), [(torch.bfloat16, 1e-3), (torch.float16, 1e-4)])
def test_a_weight_that_stands_still_is_told_once_a_window(dtype, update):
    watch = UpdateWatch({"w": half(4, dtype), "empty": half(0, dtype)}, window=20, every=100)
    assert run(watch, update, 250) == [(20, "w"), (120, "w"), (220, "w")]


def test_windows_may_touch():
    assert run(UpdateWatch({"w": half(4)}, window=5, every=5), 1e-3, 15) == [(5, "w"), (10, "w"), (15, "w")]


def test_a_weight_that_moves_is_not_told():
    assert run(UpdateWatch({"w": half(4)}), 0.1, 30) == []


def test_one_moved_element_is_enough():
    p = half(4)
    with torch.no_grad():
        p[2] = 1e-3
    assert run(UpdateWatch({"w": p}), 1e-3, 30) == []


def test_without_a_gradient_nothing_is_expected():
    assert run(UpdateWatch({"w": half(4)}), 1e-3, 30, active=False) == []


def test_large_weights_are_sampled():
    watch = UpdateWatch({"w": half(100_000)}, window=1)
    watch.before_step(list(watch.params.values()))
    (finding,) = watch.after_step()
    assert "sampled elements (of 100000)" in finding.message
