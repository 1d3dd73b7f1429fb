from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from mixprec.records import (
    RECORD_TYPES,
    SCHEMA_VERSION,
    EvaluationRecord,
    FindingRecord,
    IncidentRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    read_records,
    write_records,
)
from tests.report.run_folder import comparison


def step(**changes: object) -> StepRecord:
    record = StepRecord(
        recipe="bf16",
        seed=0,
        step=3,
        loss=2.5,
        seconds=0.1,
        applied=True,
        grad_norm=None,
        loss_scale=65536.0,
        tokens=512,
        turn="d+g: d+g",
        losses={"d": 0.5, "g": math.inf},
    )
    return replace(record, **changes)


STATISTICS = StatisticsRecord(
    recipe="fp8",
    seed=0,
    step=3,
    site="blocks.0.fc",
    role="grad_output",
    cast="e5m2[tensor]",
    in_use=True,
    elements=4096,
    zeros=0.25,
    nonfinite=1,
    amax=3.5,
    flushed=0.125,
    subnormal=0.5,
    saturated=0.0,
    sqnr_db=math.inf,
    relative_error=0.05,
    bias=-0.001,
    exponents={"-3": 17, "1": 2},
)
UPDATE = UpdateRecord(
    recipe="fp8",
    seed=0,
    step=3,
    site="blocks.0.fc.weight",
    dtype="bf16",
    weight_norm=2.0,
    gradient_norm=0.5,
    update_norm=0.002,
    ratio=0.001,
    lost=0.75,
)
FINDING = FindingRecord(
    recipe="fp8",
    seed=0,
    step=3,
    name="saturated",
    severity="warning",
    site="blocks.0.fc (grad_output)",
    message="7 % of its elements are beyond the range",
    evidence={"saturated": 0.07, "cast": "e5m2[tensor]"},
    threshold="above 5 %",
    remedy="a wider format",
    rule='[[rules]]\nmatch = "blocks.0.fc"\nprecision = "compute"\n',
)
INCIDENT = IncidentRecord(
    recipe="fp8",
    seed=0,
    number=2,
    step=131,
    trigger="loss spike",
    site="blocks.0.fc (grad_output)",
    evidence={"loss": 9.0, "batch": "17"},
    rung="rewind",
    action="back to step 120, without batches 129 to 131",
    back_to=120,
    batches=(129, 130, 131),
    lost_steps=11,
    lost_seconds=2.5,
    outcome="recovered",
    resolved=150,
)
END = RunEndRecord(recipe="bf16", seed=0, status="done")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def test_every_kind_of_record_reads_back_equal(file: Path):
    records = list(comparison(seeds=1, steps=8))
    records += [STATISTICS, UPDATE, FINDING, INCIDENT]
    assert {type(record) for record in records} == set(RECORD_TYPES.values())
    records.append(RECORD_TYPES["event"](recipe="fp16", seed=0, step=1, name="skipped", site="", message="a\nb → c"))
    write_records(file, records)
    assert read_records(file) == records


def test_appending_keeps_what_is_there(file: Path):
    write_records(file, [step()])
    write_records(file, [])
    write_records(file, [END])
    assert read_records(file) == [step(), END]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 5e-324, 1.7976931348623157e308, -0.0, 0.1])
def test_every_float_survives(file: Path, value: float):
    record = EvaluationRecord(recipe="fp16", seed=0, step=1, forward="recipe", metrics={"loss": value})
    write_records(file, [step(loss=value, grad_norm=value), record])
    first, second = read_records(file)
    assert isinstance(first, StepRecord)
    assert isinstance(second, EvaluationRecord)
    for found in (first.loss, first.grad_norm, second.metrics["loss"]):
        assert found is not None
        assert math.copysign(1, found) == math.copysign(1, value)
        assert found == value


def test_nan_survives_as_standard_json(file: Path):
    write_records(file, [step(loss=math.nan)])

    def refuse(constant: str):
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(file.read_text(), parse_constant=refuse)["loss"] == "nan"
    (found,) = read_records(file)
    assert isinstance(found, StepRecord)
    assert math.isnan(found.loss)


def test_memory_of_the_first_schema_is_read(file: Path):
    line = {"schema": 1, "type": "memory", "recipe": "a", "seed": 0}
    line |= {"saved_activation_bytes": 5, "peak_bytes": 7, "rss_bytes": 9}
    file.write_text(json.dumps(line) + "\n")
    (found,) = read_records(file)
    assert found == MemoryRecord(recipe="a", seed=0, saved_activation_bytes=5, peak_bytes=7, rss_bytes=9)
    assert isinstance(found, MemoryRecord)
    assert (found.parameters, found.bytes_by_kind, found.saved_by_site) == (None, None, None)


@pytest.mark.parametrize("kinds", [{"weights": 1.5}, {"weights": True}, ["weights"]])
def test_bytes_by_kind_are_whole_numbers(file: Path, kinds: object):
    line = {"schema": 2, "type": "memory", "recipe": "a", "seed": 0}
    line |= {"saved_activation_bytes": 5, "peak_bytes": 7, "rss_bytes": 9, "bytes_by_kind": kinds}
    file.write_text(json.dumps(line) + "\n")
    with pytest.raises(ValueError, match="field 'bytes_by_kind'"):
        read_records(file)


@pytest.mark.parametrize("lost", [1, 2, 30])
def test_a_last_line_that_was_cut_off_is_left_out(file: Path, lost: int):
    write_records(file, [step(), step(step=4)])
    file.write_bytes(file.read_bytes()[:-lost])
    expected: list[Record] = [step()] if lost > 1 else [step(), step(step=4)]
    assert read_records(file) == expected
    # The next process goes on after the last whole record.
    write_records(file, [END])
    assert read_records(file) == [*expected, END]


def test_a_long_fragment_is_cut_off_whole(file: Path):
    write_records(file, [step()])
    with file.open("a") as stream:
        stream.write('{"schema": 1, "type": "event", "message": "' + "x" * 200_000)
    write_records(file, [END])
    assert read_records(file) == [step(), END]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{broken", "line 2 is no record"),
        ("[1, 2]", "expected a JSON object"),
        ('{"a": 1}', "no schema version"),
        (json.dumps({"schema": SCHEMA_VERSION + 1, "type": "end"}), "install a newer mixprec"),
        ('{"schema": 1, "type": "stop"}', "type 'stop': expected one of comparison, step"),
        ('{"schema": 1, "type": "end", "recipe": "a"}', "damaged end record: .*'seed' and 'status'"),
        (
            '{"schema": 1, "type": "end", "recipe": "a", "seed": 0, "status": "gone"}',
            "field 'status': 'gone' is none of",
        ),
        ('{"schema": 1, "type": "end", "recipe": "a", "seed": true, "status": "done"}', "field 'seed': True is not"),
        ('{"schema": 1, "type": "end", "colour": 1}', "unknown field 'colour'"),
    ],
)
def test_damage_is_told_with_its_line(file: Path, line: str, told: str):
    write_records(file, [step()])
    with file.open("a") as stream:
        stream.write(line + "\n")
    with pytest.raises(ValueError, match=told):
        read_records(file)


def test_bytes_that_are_no_text_are_told(file: Path):
    file.write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(ValueError, match="line 1 is no record"):
        read_records(file)


def test_an_unwritable_file_is_an_os_error(tmp_path: Path):
    with pytest.raises(OSError, match="missing"):
        write_records(tmp_path / "missing" / "records.jsonl", [END])
