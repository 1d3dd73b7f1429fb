"""Two processes, one or both of whose batches are bad: each goes on, and the rank that has the fault names it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.distributed.located import WHO, all_located
from tests.distributed.processes import run

pytestmark = pytest.mark.slow

INPUT = "<input> (args[0])"


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(all_located)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("recipe", ["fp16", "mxfp8"])
def test_ddp_replays_alone_and_goes_on(ranks, recipe, who):
    for rank, found in enumerate(ranks):
        applied, findings, are_equal = found[f"ddp {recipe} {who}"]
        assert applied == [True, False, True]
        assert are_equal
        check(findings, rank in WHO[who])


@pytest.mark.parametrize("who", WHO)
def test_a_watched_loop_too(ranks, who):
    for rank, found in enumerate(ranks):
        findings, are_equal = found[f"attached {who}"]
        assert are_equal
        check(findings, rank in WHO[who])


def check(findings, is_bad):
    ((site, name, message),) = findings
    if is_bad:
        assert (site, name) == (INPUT, "bad input data")
    else:
        assert (site, name) == ("", "not reproduced")
        assert "those of another rank are not" in message


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("where", ["all", "one"])
def test_locate_by_hand_on_all_ranks_or_on_one(ranks, where, who):
    for rank, found in enumerate(ranks):
        fault, is_same, are_equal = found[f"by hand, {where} {who}"]
        runs = where == "all" or rank == 0
        assert fault == (("<input>", "bad input data") if runs and rank in WHO[who] else None)
        assert is_same
        assert are_equal


@pytest.mark.parametrize("who", WHO)
def test_a_sharded_model_is_located_on_all_ranks(ranks, who):
    for rank, found in enumerate(ranks):
        applied, findings, _, reason = found[f"sharded {who}"]
        assert applied == [True, False, True]
        assert "the model is sharded" in findings[0][2]
        assert "; session.locate(...) on all ranks names the operation" in reason
        applied, _, (site, name), _ = found[f"sharded, located {who}"]
        assert applied == [True, False, True]
        assert name == ("bad input data" if rank in WHO[who] else "fault on another rank")
        assert rank not in WHO[who] or site == "<input>"


def test_what_would_wait_for_other_ranks_is_not_replayed(ranks):
    for found in ranks:
        applied, ((_, name, message),), _ = found["reentrant"]
        assert (applied, name) == ([True, False, True], "not reproduced")
        assert "use_reentrant=False" in message
        applied, ((_, name, message),), _ = found["talking"]
        assert (applied, name) == ([True, False, True], "not reproduced")
        assert "c10d::allreduce_" in message
