from __future__ import annotations

from dataclasses import replace

from mixprec.records import IncidentTally
from tests.records.test_incidents import incident


def test_only_a_new_number_and_a_known_outcome_are_news():
    tally, seen = IncidentTally(), incident(1, 4)
    longer, settled = replace(seen, batches=(1, 2)), replace(seen, outcome="recovered", resolved=9)
    news = [tally.take(one).is_news for one in (seen, seen, longer, settled, settled)]
    assert news == [True, False, False, True, False]
    assert tally.take(replace(seen, seed=1)).is_news, "each run has its own numbers"


def test_a_rehearsed_one_is_news_once():
    tally, told = IncidentTally(), replace(incident(1, 4), outcome="rehearsed")
    assert [tally.take(one).is_news for one in (told, replace(told, resolved=9))] == [True, False]


def test_costs_are_told_as_they_grow():
    tally = IncidentTally()
    told = [tally.take(replace(incident(1, 4), lost_steps=steps, lost_seconds=0.5 * steps)) for steps in (2, 5, 5, 3)]
    assert [(one.lost_steps, one.lost_seconds) for one in told] == [(2, 1.0), (3, 1.5), (0, 0.0), (0, 0.0)]
