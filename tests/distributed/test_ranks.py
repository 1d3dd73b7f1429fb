"""What ranks agree on, seen from one process: opinions go in, the agreed one comes out."""

from __future__ import annotations

import pytest

from mixprec.distributed import Alone, Opinion, ranks_of


def test_alone_an_opinion_holds():
    opinion = Opinion(is_finite=False, norm=1.0, has_gradients=(True, False), losses=("loss", "adv"))
    assert Alone().agree(opinion, compares_norms=True) is opinion
    with pytest.raises(ValueError, match="because"):
        Alone().agree(Opinion(is_finite=True, norm=1.0, has_gradients=(), refusal="because"), compares_norms=False)


def test_without_torch_distributed_a_process_is_alone():
    assert isinstance(ranks_of("default"), Alone)
    assert isinstance(ranks_of(None), Alone)


@pytest.mark.parametrize(("wrong", "error"), [("world", ValueError), (3, TypeError)])
def test_what_is_no_group_is_refused(wrong, error):
    with pytest.raises(error, match="expected 'default', None or a ProcessGroup"):
        ranks_of(wrong)
