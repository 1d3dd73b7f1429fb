"""Dumps of a flight recorder, as they are read without torch."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mixprec.records import RecordedStep, RecorderDump, find_dumps, read_dump

STEP = RecordedStep(
    step=3,
    outcome="skipped",
    time=1.5,
    losses={"loss": math.nan, "adv": 2.0},
    grad_norm=math.inf,
    norms={"fc.weight": math.inf},
    loss_scales={"loss": 65536.0},
    batches=(
        {
            "name": "shard 1",
            "hash": "00ff",
            "tensors": ({"place": "args[0]", "shape": (2, 3), "dtype": "bfloat16", "device": "cpu"},),
        },
    ),
    statistics=(
        {
            "site": "fc",
            "role": "input",
            "cast": "mxfp8",
            "in_use": True,
            "nonfinite": 1,
            "amax": 3.0,
            "flushed": 0.5,
            "saturated": 0.0,
            "sqnr_db": -math.inf,
        },
    ),
)
DUMP = RecorderDump(
    reason="non-finite",
    detail="the loss is not finite",
    is_ordinary=False,
    step=3,
    recipe="fp16",
    seed=1,
    written="2026-01-01 00:00:00",
    pid=12,
    host="a",
    versions={"torch": "2.13"},
    batch="",
    steps=(STEP,),
)


def test_a_dump_reads_back_equal():
    again = RecorderDump.from_text(DUMP.to_text())
    assert repr(again) == repr(DUMP)  # NaN is not equal to itself


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON, or was cut off"),
        (DUMP.to_text()[:-40], "no JSON, or was cut off"),
        ("[1]", "no dump of a flight recorder"),
        ('{"schema": 1, "type": "step"}', "no dump of a flight recorder"),
        (DUMP.to_text().replace('"schema": 1', '"schema": 2'), "schema version 2, this mixprec reads up to 1"),
        (DUMP.to_text().replace('"pid": 12', '"pid": "x"'), "it is damaged"),
        (DUMP.to_text().replace('"outcome"', '"came_out"'), "unknown field 'came_out'"),
        (DUMP.to_text().replace('"pid": 12, ', ""), "it is damaged"),
        (DUMP.to_text().replace('"steps": [', '"steps": [3, '), "it is damaged"),
    ],
)
def test_what_is_no_dump_is_refused(tmp_path: Path, text: str, message: str):
    (tmp_path / "dump.json").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_dump(tmp_path)
    assert str(tmp_path / "dump.json") in str(caught.value)


def test_dumps_are_found_in_their_order(tmp_path: Path):
    assert find_dumps(tmp_path) == []
    names = ["dump-0002-step-00000001-request", "dump-0010-step-00000000-non-finite"]
    for name in (*names, ".writing-dump-0011-step-00000000-request"):
        (tmp_path / "recorder" / name).mkdir(parents=True)
    assert [path.name for path in find_dumps(tmp_path)] == names
