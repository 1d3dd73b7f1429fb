"""Run folders in every state: what can be read is, the rest is told, and nothing is changed."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import pytest
import torch

from mixprec.monitor.doctor import diagnose, read_run
from mixprec.specs import recipe
from tests.monitor.doctor.records import calm, event, folder, skipped
from tests.monitor.recorder.driven import Driven


def bytes_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def append(path: Path, data: bytes) -> None:
    with open(path / "records.jsonl", "ab") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b'{"schema": 3, "type": "st', "the last line of .* was cut off while it was written"),
        (b"\0" * 4096, "the last line of .* was cut off"),
        (b"\0" * 4096 + b"\n", "line 41 is no record but"),
        (b"rubbish \xff\xfe\n", "line 41 is no record but"),
        (b"[1, 2]\n", "line 41 is no record but"),
        (
            b'{"schema": 99, "type": "step"}\n',
            "line 41 has schema version 99, this mixprec reads up to 5: install a newer",
        ),
        (b'{"schema": 3, "type": "new kind"}\n', "line 41 has type 'new kind'"),
        (b'{"schema": 3, "type": "step", "step": "x"}\n', "line 41 is a damaged step record"),
    ],
)
def test_a_damaged_line_is_told_and_the_rest_is_read(tmp_path, damage, says):
    run = folder(tmp_path, calm(40), recipe("bf16"))
    append(run, damage)
    before = bytes_of(run)
    contents = read_run(run)
    assert len(contents.runs[0].steps) == 40
    (told,) = contents.left_out
    assert re.search(says, told), told
    assert bytes_of(run) == before


def test_records_after_the_damage_are_read(tmp_path):
    run = folder(tmp_path, calm(40))
    append(run, b"rubbish\n")
    folder(run, [skipped(40, math.nan)])
    diagnosis = diagnose(run)
    assert [found.finding.name for found in diagnosis.findings] == ["loss not finite"]
    assert len(diagnosis.left_out) == 1


def test_many_damaged_lines_are_counted(tmp_path):
    run = folder(tmp_path, calm(1))
    append(run, b"".join(b"rubbish %d\n" % n for n in range(100)))
    left_out = read_run(run).left_out
    assert len(left_out) == 6
    assert "95 more lines" in left_out[-1]
    assert "lines 7 to 101" in left_out[-1]


@pytest.mark.parametrize("version", [1, 2])
def test_earlier_schema_versions_are_read(tmp_path, version):
    step = (
        '{"schema": %d, "type": "step", "recipe": "bf16", "seed": 0, "step": 0, "loss": 2.5, "seconds": 0.1, '
        '"applied": true, "grad_norm": null, "loss_scale": null, "tokens": 512}\n'
        '{"schema": %d, "type": "memory", "recipe": "bf16", "seed": 0, "saved_activation_bytes": 1, "peak_bytes": 2, '
        '"rss_bytes": 3}\n'
    )
    (tmp_path / "records.jsonl").write_text(step % (version, version))
    contents = read_run(tmp_path)
    assert contents.left_out == ()
    assert contents.runs[0].steps[0].loss == 2.5


def test_a_folder_that_is_none_says_what_it_is(tmp_path):
    cases = {
        tmp_path / "missing": "does not exist: expected a run folder",
        folder(tmp_path / "run", calm(1)) / "records.jsonl": "is a file: did you mean .*run",
        tmp_path: "is no run folder, but holds some: give one of them, e.g. .*run",
    }
    (tmp_path / "empty").mkdir()
    cases[tmp_path / "empty"] = "empty is empty: expected a run folder"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("x")
    cases[tmp_path / "other"] = "is no run folder: it holds no records.jsonl \\(but notes.txt\\)"
    cases[tmp_path / "other" / "notes.txt"] = "is a file: expected a run folder"
    for path, message in cases.items():
        with pytest.raises(ValueError, match=message):
            diagnose(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: the run has recorded nothing yet"),
        (b'{"schema": 99, "type": "step"}\n', "schema version 99"),
        (b"\x89PNG\r\n\x1a\n", "line 1 is no record"),
    ],
)
def test_a_folder_of_which_nothing_can_be_read(tmp_path, content, says):
    (tmp_path / "records.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=says):
        diagnose(tmp_path)


def test_a_file_that_cannot_be_opened_raises(tmp_path):
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        diagnose(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_raises(tmp_path):
    run = folder(tmp_path, calm(1))
    (run / "records.jsonl").chmod(0)
    with pytest.raises(PermissionError):
        diagnose(run)


def test_damaged_recipes_versions_and_dumps_are_told(tmp_path):
    run = folder(tmp_path, calm(3))
    (run / "recipe.toml").write_text("name = ")
    (run / "versions.json").write_text("{")
    driven = Driven(run)
    whole = driven.recorder.dump()
    cut = driven.recorder.dump()
    (cut / "dump.json").write_text((cut / "dump.json").read_text()[:30])
    bare = driven.recorder.dump()
    (bare / "dump.json").unlink()
    contents = read_run(run)
    assert list(contents.dumps) == [whole]
    assert len(contents.left_out) == 4
    for file in (cut / "dump.json", bare / "dump.json", run / "recipe.toml", run / "versions.json"):
        assert any(str(file) in text for text in contents.left_out), file


def test_dumps_alone_are_enough(tmp_path):
    driven = Driven(tmp_path, recipe="mine")
    driven.step()
    driven.step(factor=math.nan, is_finite=False)
    diagnosis = diagnose(tmp_path)
    assert [found.finding.name for found in diagnosis.findings] == ["non-finite step"]
    assert "records.jsonl is missing" in diagnosis.left_out[0]


def test_a_crash_is_told_with_its_batch(tmp_path):
    driven = Driven(folder(tmp_path, calm(1)), recipe="mine")
    driven.recorder.batch("shard 7")
    driven.forward(torch.ones(2, 4))
    try:
        raise KeyError("labels")
    except KeyError as error:
        driven.recorder.failed(error)
    finding = diagnose(tmp_path).findings[0].finding
    assert (finding.name, finding.severity) == ("crash", "fault")
    assert finding.evidence["error"] == "KeyError: 'labels'"
    assert "test_contents.py" in str(finding.evidence["where"])
    assert "shard 7" in str(finding.evidence["batch"])


def test_a_crash_that_a_resumed_run_has_left_behind_is_a_note(tmp_path):
    driven = Driven(folder(tmp_path, calm(3)), recipe="mine")
    for _ in range(3):
        driven.step()
    driven.step(factor=math.nan, is_finite=False)
    assert diagnose(tmp_path).faults == 1
    folder(tmp_path, [event(2, "resumed"), *calm(30, first=2)])
    assert diagnose(tmp_path).faults == 1  # the same process may have dumped after it resumed
    (tmp_path / ".lock").write_text('{"pid": 1, "host": "another"}')
    (found,) = diagnose(tmp_path).findings
    assert (found.finding.name, found.finding.severity) == ("non-finite step", "note")
    assert "the run was resumed since" in found.finding.message


def test_signals_requests_and_probing_scales_are_no_faults(tmp_path):
    driven = Driven(folder(tmp_path, calm(1)), recipe="mine")
    driven.step(scale=2.0, is_finite=False)
    driven.recorder.dump("a look")
    driven.recorder.signalled("SIGUSR1")
    driven.recorder.signalled("SIGTERM")
    diagnosis = diagnose(tmp_path)
    assert [(f.finding.name, f.finding.severity) for f in diagnosis.findings] == [("terminated", "note")]
    assert len(diagnosis.dumps) == 4
