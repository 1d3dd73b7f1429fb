from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from mixprec.monitor.export import Exporter, Exporters, IncidentCommand
from mixprec.records import record_line
from tests.monitor.export.made_records import event, finding, incident, step
from tests.monitor.export.waiting import hear_failures, times_until_failure, until

WRITES = """
import json, os, sys
facts = {name: value for name, value in os.environ.items() if name.startswith("MIXPREC_INCIDENT_")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([facts, sys.stdin.read()]) + "\\n")
"""

SLEEPS = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
with open(sys.argv[1], "w") as file:
    file.write(str(child.pid))
child.wait()
"""


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *words]


def test_the_command_gets_each_record_of_an_incident(tmp_path: Path):
    exporter = IncidentCommand(python(WRITES, str(tmp_path / "heard")))
    assert isinstance(exporter, Exporter)
    seen, settled = incident(), incident(outcome="recovered", resolved=60)
    for record in (step(), finding(), seen, event(), incident(batches=(39, 40, 41)), settled, settled):
        exporter.take(record)
    exporter.close()
    heard = [json.loads(line) for line in (tmp_path / "heard").read_text().splitlines()]
    assert [line for _, line in heard] == [record_line(seen), record_line(settled)]
    assert heard[1][0] == {
        "MIXPREC_INCIDENT_NUMBER": "1",
        "MIXPREC_INCIDENT_STEP": "41",
        "MIXPREC_INCIDENT_TRIGGER": "loss spike",
        "MIXPREC_INCIDENT_SITE": "blocks.0.fc (weight)",
        "MIXPREC_INCIDENT_RUNG": "rewind",
        "MIXPREC_INCIDENT_OUTCOME": "recovered",
    }


def test_a_text_is_split_into_words_and_no_shell_reads_it(tmp_path: Path):
    exporter = IncidentCommand(f"touch '{tmp_path / 'a b'}' {tmp_path}/$HOME; {tmp_path}/x")
    exporter.take(incident())
    exporter.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["$HOME;", "a b", "x"]


def test_a_command_that_fails_is_told_once_and_run_again(tmp_path: Path):
    fails = "import sys; open(sys.argv[1], 'a').write('x'); sys.exit('the pager is asleep')"
    exporter = IncidentCommand(python(fails, str(tmp_path / "runs")))
    exporters = Exporters([exporter])
    expected = r"IncidentCommand failed at incident 0 \(exit status 1: the pager is asleep\).*training goes on"
    # The first failure is told at whichever record comes after it, be it an incident or a step.
    with pytest.warns(RuntimeWarning, match=expected) as told:
        hear_failures(exporters, exporter, 3)
    assert len(told) == 1
    assert exporters.active == (exporter,), "one failure is no reason to keep quiet about the next incident"
    with pytest.warns(RuntimeWarning, match="3 calls failed"):
        exporters.close()
    assert (tmp_path / "runs").read_text() == "xxx"


def test_a_command_that_sleeps_is_killed_with_its_children_and_training_waits_for_none(tmp_path: Path):
    exporter = IncidentCommand(python(SLEEPS, str(tmp_path / "pid")), timeout=1.0)
    exporter.take(incident())
    assert until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    with pytest.warns(RuntimeWarning, match=r"incident 1 \(it did not end within 1 s and was killed\)"):
        taken = times_until_failure(exporter)
    assert sorted(taken)[-5] < 1e-3, "records go by while the command hangs"
    assert until(lambda: not _lives(int((tmp_path / "pid").read_text())))
    start = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"records did not reach it"):
        exporter.close()
    assert time.monotonic() - start < 5
    assert until(lambda: not [t for t in threading.enumerate() if t.name == "IncidentCommand"])


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc/self").exists() else True


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("", {}, r"command is '': expected a program"),
        ([], {}, r"command is \[\]: expected a program"),
        ("a 'b", {}, r"\"a 'b\" cannot be split into words: No closing quotation"),
        ("true", {"timeout": 0}, r"timeout is 0 s: expected more than 0"),
        ("true", {"timeout": float("nan")}, r"timeout is nan s: expected more than 0"),
    ],
)
def test_what_cannot_be_is_refused(command, options, told: str):
    with pytest.raises(ValueError, match=told):
        IncidentCommand(command, **options)


def test_a_program_that_is_missing_is_told_before_training():
    with pytest.raises(FileNotFoundError, match="finds no program 'no-such-pager'"):
        IncidentCommand("no-such-pager --now")
