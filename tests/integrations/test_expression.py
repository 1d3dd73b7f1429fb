"""Expressions of other packages' names: one description, built and written."""

from __future__ import annotations

import datetime

from mixprec.integrations._expression import Call, Name, imports_of, text_of, value_of

DELTA = Name(module="datetime", name="timedelta")
ZONE = Call.of(Name(module="datetime", name="timezone"), offset=Call.of(DELTA, hours=1), name="here")


def test_what_is_written_is_what_is_built() -> None:
    for room in (10, 40, 100):
        namespace: dict[str, object] = {}
        lines = [*imports_of([ZONE]), f"made = {text_of(ZONE, before=7, room=room)}"]
        exec("\n".join(lines), namespace)
        assert namespace["made"] == value_of(ZONE) == datetime.timezone(datetime.timedelta(hours=1), "here")


def test_long_calls_are_written_over_lines() -> None:
    assert text_of(ZONE, room=40) == 'timezone(\n    offset=timedelta(hours=1),\n    name="here",\n)'


def test_imports_are_sorted_and_told_once() -> None:
    values = [ZONE, Name(module="torch", name="nn.Linear"), Name(module="torch", name="int8", alias="torch")]
    assert imports_of([*values, ZONE]) == [
        "import torch",
        "from datetime import timedelta, timezone",
        "from torch import nn",
    ]


def test_a_package_under_another_name() -> None:
    name = Name(module="datetime", name="date.today", alias="dt")
    assert imports_of([name]) == ["import datetime as dt"]
    assert text_of(Call.of(name)) == "dt.date.today()"
    assert value_of(Call.of(name)) == datetime.date.today()
