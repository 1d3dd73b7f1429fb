"""Two processes under a guard: what one of them sees both act upon, alike; and one that dies on the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.multiprocessing import ProcessExitedException

from tests.distributed.guarded import BAD, BATCHES, DIED, all_guarded, dies_going_back, goes_on
from tests.distributed.processes import run

pytestmark = pytest.mark.slow

KINDS = ("ddp", "sharded")


@pytest.fixture(scope="module")
def ranks() -> list[dict[str, Any]]:
    return run(all_guarded)


def check_same(told: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Incidents and weights of both ranks, and those of the runs without the faults."""
    (one, _), (other, _) = told
    assert one["incidents"] == other["incidents"]
    for own, without in told:
        assert all(map(torch.equal, own["weights"], one["weights"]))
        assert all(map(torch.equal, own["weights"], without["weights"]))
        assert own["applied"] == without["applied"]
        assert without["seen"] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_one_rank_sees_both_leave_out_or_go_back_for(ranks: list[dict[str, Any]], kind: str):
    told = [rank[f"with_faults {kind}"] for rank in ranks]
    check_same(told)
    skipped, flipped, spoilt = told[0][0]["seen"]
    assert skipped == ("loss spike", "skip", BAD, None, (BAD,))
    assert (flipped[0], flipped[1], flipped[4]) == ("weight jump", "rewind", ())
    assert (spoilt[0], spoilt[1], spoilt[4]) == ("moment not finite", "rewind", ())
    assert told[0][0]["outcomes"] <= {"recovered", "again"}


@pytest.mark.parametrize("kind", KINDS)
def test_batches_that_led_to_a_fault_are_left_out_on_both(ranks: list[dict[str, Any]], kind: str):
    told = [rank[f"gone_back {kind}"] for rank in ranks]
    check_same(told)
    (back,) = told[0][0]["seen"]
    assert back[1:] == ("rewind", BAD, 50, tuple(range(BAD - 3, BAD + 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_dies_on_the_way_back_leaves_a_run_that_goes_on(tmp_path: Path, kind: str):
    with pytest.raises(ProcessExitedException, match=f"exit code {DIED}"):
        run(dies_going_back, kind, str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["20", "40", "60"]
    told = run(goes_on, kind, str(tmp_path), 60)
    check_same(told)
    for own, _ in told:
        assert own["begun"] == (60, 60)
        assert [one[:2] for one in own["seen"]] == [("weight jump", "rewind")]
        assert own["applied"] == BATCHES
