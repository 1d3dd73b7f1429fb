"""What is to be watched: refusals name the option."""

from __future__ import annotations

import pytest

from mixprec.monitor import Monitoring


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"every": -1}, ValueError, "every is -1: expected a whole number, 0 for never"),
        ({"every": True}, ValueError, "every is True"),
        ({"recorder_steps": 2.5}, ValueError, "recorder_steps is 2.5"),
        ({"sites": "blocks.*"}, ValueError, "sites is 'blocks.*': expected texts"),
        ({"sites": ()}, ValueError, "sites is empty"),
        ({"what_if": ("e9m9",)}, ValueError, "e9m9"),
        ({"watches": (3,)}, TypeError, "watches has a int, expected a monitor.StepWatch"),
    ],
)
def test_what_makes_no_sense_is_refused(options, error, text):
    with pytest.raises(error) as caught:
        Monitoring(**options)
    assert text in str(caught.value)


def test_lists_become_tuples():
    assert Monitoring(sites=["a.*"], what_if=["mxfp4"]).sites == ("a.*",)
