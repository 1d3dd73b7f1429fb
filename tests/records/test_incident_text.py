from __future__ import annotations

from dataclasses import replace

import pytest

from mixprec.records import incident_cause, incident_cost, incident_outcome, incident_text, is_unresolved
from tests.records.test_incidents import incident


@pytest.mark.parametrize(
    ("outcome", "told", "unresolved"),
    [
        ("open", "open", True),
        ("recovered", "recovered at step 9", False),
        ("again", "came again at step 9", False),
        ("stopped", "stopped the run at step 9", True),
        ("rehearsed", "rehearsed at step 9", False),
    ],
)
def test_every_outcome_has_words(outcome, told, unresolved):
    one = replace(incident(1, 4), outcome=outcome, resolved=None if outcome == "open" else 9)
    assert incident_outcome(one) == told
    assert is_unresolved(one) == unresolved


def test_the_site_and_the_cost_are_told_where_there_are_any():
    one = incident(1, 4)
    assert (incident_cause(one), incident_cost(one)) == ("loss spike", "")
    assert incident_text(one) == "incident 1: loss spike; rewind: back to step 2; open"
    two = replace(one, site="head (input)", lost_steps=1, lost_seconds=0.25, action="")
    assert incident_text(two) == "incident 1: loss spike at head (input); rewind; open; 1 step and 250 ms lost"
