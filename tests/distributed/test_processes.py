"""Two processes that take their steps together: agreed, refused together, or right as one process is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.checks import all_checks
from tests.distributed.processes import run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(all_checks)


def test_only_the_loss_at_fault_shrinks_and_the_alarm_sounds_on_all_ranks(ranks):
    for rank in ranks:
        scales, alarms, weights, skipped = rank["losses_and_alarm"]
        assert scales == {"loss": 4.0, "adv": 2.0}
        assert alarms == ["loss scale alarm"]
        assert weights == [1.0] * 4
        assert skipped == 3


def test_ranks_that_take_different_steps_are_told_so(ranks):
    for rank in ranks:
        assert "let every rank call step and backward with the same names" in rank["different_names"]
        assert rank["different_names"].endswith("; then True with norm 2")
        assert "seeds" in rank["different_seeds"]
        assert "prepare with the same recipe and options" in rank["different_seeds"]


def test_what_one_rank_refuses_all_refuse(ranks):
    assert "did not come through session.backward" in ranks[0]["refused_on_one"]
    assert "another rank refused this step" in ranks[1]["refused_on_one"]


def test_norms_that_differ_are_not_clipped_by(ranks):
    for rank in ranks:
        assert "the ranks' gradients have norms from 2 to 4" in rank["norms_that_differ"]


def test_without_a_group_each_rank_decides_alone(ranks):
    assert [rank["each_alone"] for rank in ranks] == [(False, 4.0), (True, 8.0)]


def test_a_rank_without_gradients_takes_part(ranks):
    for rank, weights in zip(ranks, ([0.0] * 4, [1.0] * 4), strict=True):
        assert rank["without_gradients_on_one"] == (True, False, 1, 0.5, weights)


@pytest.mark.parametrize("name", ["ddp", "ddp_accumulation"])
def test_ddp_trains_as_one_process(ranks, name):
    for rank in ranks:
        applied, scale, difference = rank[name]
        assert applied == [True, True, False]
        assert scale == 4.0
        assert difference < 1e-6


def test_a_sharded_model_has_the_norm_of_the_whole_one(ranks):
    for rank in ranks:
        norms, applied, scale, difference = rank["sharded"]
        for got, want in norms:
            assert got == pytest.approx(want, rel=1e-6)
        assert (applied, scale) == (False, 4.0)
        assert difference < 1e-6
