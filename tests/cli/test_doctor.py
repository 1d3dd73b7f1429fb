"""``mixprec doctor``, as a user types it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mixprec.cli import main
from mixprec.monitor import Monitoring
from mixprec.monitor.doctor import with_rule
from mixprec.records import RunLock, read_records
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe
from mixprec.training import prepare
from tests.monitor.doctor.incidents import escalated, incident, stopped
from tests.monitor.doctor.records import calm, coverage, folder, skipped, statistics

WORKLOAD = """
import torch
from torch import nn
import mixprec


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop, self.head = nn.Linear(8, 16), nn.Dropout(0.5), nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.drop(self.body(x).relu()))


def batches(step):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
    return x * float("nan") if step == BAD else x


BAD = 12


def workload(seed, device):
    torch.manual_seed(seed)
    return mixprec.Workload(
        model=Net().to(device),
        loss=lambda model, batch: model(batch).square().mean(),
        batches=batches,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        steps=30,
        evaluate=lambda model: {"loss": 0.0},
    )
"""


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["doctor", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


def train(tmp_path: Path, *, steps: int = 16, save_at: int | None = None) -> Path:
    """Train the workload as a user's own loop does; its run folder."""
    file = tmp_path / "work.py"
    file.write_text(WORKLOAD)
    names: dict[str, object] = {}
    exec(compile(WORKLOAD, str(file), "exec"), names)
    work = names["workload"](5, "cpu")  # pyright: ignore[reportCallIssue]
    optimizer = work.optimizer(work.model.parameters())
    session = prepare(work.model.train(), optimizer, "bf16", run=tmp_path / "run", seed=5)
    torch.manual_seed(99)  # what dropout draws is the loop's own affair
    for step in range(steps):
        session.step(work.loss(session.model, work.batches(step)))
        if step == save_at:
            session.save()
    session.restore()
    return tmp_path / "run"


def test_a_healthy_run(capsys, tmp_path):
    status, out, err = ran(capsys, str(folder(tmp_path, calm(60), recipe("bf16"))))
    assert (status, err) == (0, "")
    assert out.rstrip().endswith("nothing was found")
    assert "60 applied steps" in out


def test_a_run_with_faults_is_told_with_evidence_threshold_and_remedy(capsys, tmp_path):
    records = [*calm(30), skipped(30, math.nan), statistics(0, saturated=0.25), coverage(engine="emulated")]
    status, out, err = ran(capsys, str(folder(tmp_path, records)))
    assert (status, err) == (1, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert "1. fault: loss not finite (step 30, mine)" in lines
    assert "2. warning: saturated (step 0, mine)" in lines
    assert any(line.startswith("   evidence:  saturated 0.25") for line in lines)
    assert "   threshold: above 5 %" in lines
    start = lines.index("      [[rules]]")
    assert lines[start : start + 3] == ["      [[rules]]", '      match = "blocks.0.fc"', '      precision = "compute"']
    assert "1 fault, 1 warning, 1 note" in lines
    assert f"to replay the step at fault: mixprec doctor {tmp_path} --workload FILE" in out
    assert all(line == line.rstrip() for line in out.splitlines() if line.startswith("1. "))


def test_warnings_alone_are_no_failure(capsys, tmp_path):
    status, out, _ = ran(capsys, str(folder(tmp_path, [statistics(0, saturated=0.25)])))
    assert status == 0
    assert "1 warning" in out


def test_only_the_first_findings_are_shown(capsys, tmp_path):
    run = folder(tmp_path, [statistics(0, site=f"blocks.{n}.fc", saturated=0.25) for n in range(20)])
    _, out, _ = ran(capsys, str(run), "--top", "2")
    assert "3. " not in out
    assert "18 more findings: --top 0 shows all" in out
    assert "20. " in ran(capsys, str(run), "--top", "0")[1]


def test_as_json(capsys, tmp_path):
    status, out, err = ran(capsys, str(folder(tmp_path, [*calm(30), skipped(30, math.nan)])), "--json")
    assert (status, err) == (1, "")
    told = json.loads(out)
    assert (told["schema"], told["type"], told["findings"][0]["name"]) == (2, "diagnosis", "loss not finite")


def test_what_was_left_out_is_told(capsys, tmp_path):
    run = folder(tmp_path, calm(30))
    with open(run / "records.jsonl", "ab") as file:
        file.write(b'rubbish\n{"schema": 3, "ty')
    status, out, _ = ran(capsys, str(run))
    assert status == 0
    assert "left out:" in out
    assert "line 31 is no record but b'rubbish'" in out
    assert "was cut off while it was written" in out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    status, out, err = ran(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("mixprec: ")
    assert err.count("\n") == 1
    return err


def test_what_is_no_run_is_one_line(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "records.jsonl").write_text("")
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "records.jsonl").write_text('{"schema": 99, "type": "step"}\n')
    (tmp_path / "folder" / "records.jsonl").mkdir(parents=True)
    for name, says in {
        "missing": "does not exist: expected a run folder",
        "empty": "is empty",
        "file": "is a file",
        "nothing": "the run has recorded nothing yet",
        "newer": "schema version 99, this mixprec reads up to",
        "folder": "Is a directory",
    }.items():
        assert says in refused(capsys, str(tmp_path / name))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--json"], "options and no run"),
        (["RUN", "--top", "-1"], "--top must be at least 0"),
        (["RUN", "--step", "3"], "--step is about replaying a step: give --workload"),
        (["RUN", "--seed", "3"], "--seed is about replaying"),
        (["RUN", "--workload", "w.py", "--step", "-3"], "--step must be at least 0"),
        (["RUN", "--workload", "w.py", "--json"], "--json prints the diagnosis alone"),
        (["RUN", "--nonsense"], "nonsense"),
    ],
)
def test_options_that_do_not_go_together(capsys, tmp_path, words, says):
    run = str(folder(tmp_path, calm(3)))
    assert says in refused(capsys, *(run if word == "RUN" else word for word in words))


def test_other_commands_tell_damaged_records_and_change_nothing(capsys, tmp_path):
    """The report stands without the damaged line; what would write behind it refuses."""
    run = folder(tmp_path, calm(3))
    with open(run / "records.jsonl", "ab") as file:
        file.write(b"rubbish\n")
    before = (run / "records.jsonl").read_bytes()
    assert main(["report", str(run)]) == 0
    assert "line 4 is no record but b'rubbish'" in capsys.readouterr().out
    assert main(["compare", "gpt", "--resume", str(run)]) == 2
    assert "line 4 is no record but b'rubbish'" in capsys.readouterr().err
    assert (run / "records.jsonl").read_bytes() == before


def test_a_session_that_flushes_is_told_with_a_cast_that_was_measured_beside_it(capsys, tmp_path):
    torch.manual_seed(0)
    precision = LayerPrecision.of(input="e2m1[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]")
    mine = Recipe(name="mine", compute_dtype="bf16", rules=(Rule(match="0", precision=precision),))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    watched = Monitoring(every=5, what_if=("mxfp8", "e4m3[tensor]"))
    session = prepare(model, optimizer, mine, run=tmp_path, monitor=watched)
    for _ in range(11):
        x = torch.randn(32, 64)
        x[0] = 40.0  # its tensor's scale leaves nothing of the other rows
        session.step(model(x).square().mean() * 1e-3)
    session.restore()
    main(["doctor", str(tmp_path), "--json"])
    told = json.loads(capsys.readouterr().out)
    (finding,) = [found for found in told["findings"] if (found["name"], found["site"]) == ("flushed", "0 (input)")]
    assert finding["evidence"]["samples"] == 3
    assert "measured beside it in 3 samples" in finding["remedy"]
    changed = with_rule(mine, finding["rule"]).rules[0]
    assert changed.match == "0"
    assert changed.precision is not None
    assert str(changed.precision.fprop_input) in ("mxfp8", "e4m3[tensor]")
    assert changed.precision.dgrad_grad_output == precision.dgrad_grad_output


def test_a_step_is_replayed_from_its_workload(capsys, tmp_path):
    run = train(tmp_path)
    before = (run / "records.jsonl").read_bytes()
    status, out, err = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"))
    assert (status, err) == (1, "")
    assert "replay of step 12, recipe bf16, seed 5" in out
    assert "trained again from its start" in out
    assert "12 steps on the way: every loss equals the recorded one" in out
    assert "random states: as recorded" in out
    assert "loss: nan, as recorded; skipped" in out
    assert "batch: the workload's, which is the recorded one" in out
    assert "1. fault: bad input data" in out.partition("replay of step")[2]
    assert (run / "records.jsonl").read_bytes() == before


def test_a_replay_goes_on_from_a_checkpoint(capsys, tmp_path):
    run = train(tmp_path, save_at=9)
    _, out, _ = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"), "--max-steps", "2")
    assert f"weights: from {run / 'checkpoints' / 'step-00000010'}" in out
    assert "2 steps on the way: every loss equals the recorded one" in out


def test_a_replay_that_lies_too_far_is_refused(capsys, tmp_path):
    run = train(tmp_path)
    assert main(["doctor", str(run), "--workload", str(tmp_path / "work.py"), "--max-steps", "3"]) == 2
    assert "step 12 lies 12 steps after the start: allow as many by --max-steps" in capsys.readouterr().err


def test_a_batch_that_the_workload_no_longer_has_is_taken_from_the_dump(capsys, tmp_path):
    run = train(tmp_path)
    (tmp_path / "work.py").write_text(WORKLOAD.replace("BAD = 12", "BAD = -1"))
    status, out, _ = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"))
    assert status == 1
    assert "batch: the model's arguments are those of the dump" in out
    assert "loss: nan, as recorded" in out


def test_another_workload_is_told_by_its_losses(capsys, tmp_path):
    run = train(tmp_path)
    (tmp_path / "work.py").write_text(WORKLOAD.replace("lr=1e-3", "lr=1e-2"))
    _, out, _ = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"))
    assert "from the run's step 1 on, losses differ from the recorded ones" in out


def test_a_run_without_a_recipe_is_replayed_as_it_is(capsys, tmp_path):
    run = train(tmp_path)
    (run / "recipe.toml").write_text("name = ")
    assert main(["doctor", str(run), "--workload", str(tmp_path / "work.py")]) == 2
    assert "the recipe 'bf16' of the run is not there or cannot be read" in capsys.readouterr().err
    (run / "recipe.toml").unlink()
    _, out, _ = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"))
    assert "recipe: the run has none, so the model is replayed as the workload builds it" in out


def test_a_healthy_step_is_replayed_as_such(capsys, tmp_path):
    run = train(tmp_path)
    _, out, _ = ran(capsys, str(run), "--workload", str(tmp_path / "work.py"), "--step", "4")
    assert "replay of step 4" in out
    assert "nothing is wrong with the step" in out


def test_a_step_that_does_not_exist(capsys, tmp_path):
    run = train(tmp_path)
    assert main(["doctor", str(run), "--workload", str(tmp_path / "work.py"), "--step", "99"]) == 2
    assert "holds no step 99: its steps are 0 to 14" in capsys.readouterr().err


def test_a_workload_that_does_not_fit_is_one_line(capsys, tmp_path):
    run = train(tmp_path, save_at=9)
    (tmp_path / "work.py").write_text(WORKLOAD.replace("nn.Linear(8, 16)", "nn.Linear(8, 32)"))
    assert main(["doctor", str(run), "--workload", str(tmp_path / "work.py")]) == 2
    (tmp_path / "work.py").write_text("def workload(seed, device):\n    return 1 / 0\n")
    assert main(["doctor", str(run), "--workload", str(tmp_path / "work.py")]) == 2
    err = capsys.readouterr().err
    assert "line 2: ZeroDivisionError" in err
    assert "Traceback" not in err


def test_a_comparison_is_replayed_from_its_records(capsys, tmp_path):
    file = tmp_path / "work.py"
    file.write_text(WORKLOAD)
    out = tmp_path / "out"
    main(["compare", str(file), "--recipes", "fp32,bf16", "--seeds", "1", "--steps", "20", "--out", str(out)])
    capsys.readouterr()
    status, told, err = ran(capsys, str(out), "--workload", str(file), "--recipe", "bf16")
    assert (status, err) == (1, "")
    assert "replay of step 12, recipe bf16, seed 0" in told
    assert "12 steps on the way: every loss equals the recorded one" in told
    assert "loss: nan, as recorded" in told
    assert main(["doctor", str(out), "--workload", str(file), "--recipe", "fp8"]) == 2
    assert "holds no run of recipe fp8: it holds fp32 with seed 0, bf16 with seed 0" in capsys.readouterr().err


HOLDER = """
import sys, time
from mixprec.records import RunLock

lock = RunLock(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_a_folder_that_another_process_writes_is_refused_and_loses_nothing(capsys, tmp_path):
    file = tmp_path / "work.py"
    file.write_text(WORKLOAD)
    out = tmp_path / "out"
    asked = ["compare", str(file), "--recipes", "fp32", "--seeds", "1", "--steps", "8"]
    assert main([*asked, "--out", str(out)]) == 0
    capsys.readouterr()
    before = (out / "records.jsonl").read_bytes()
    RunLock(out).release()
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(out)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        model = torch.nn.Linear(1, 1)
        for refused_words in ([*asked, "--resume", str(out)],):
            status = main(refused_words)
            err = capsys.readouterr().err
            assert status == 2
            assert f"run folder {out} is being written by process {holder.pid} on" in err
        with pytest.raises(ValueError, match="is being written by process"):
            prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16", run=out)
        assert main(["doctor", str(out)]) in (0, 1)  # reading disturbs nobody
        holder.kill()
    assert (out / "records.jsonl").read_bytes() == before
    assert len(read_records(out / "records.jsonl")) > 8
    capsys.readouterr()
    assert main([*asked, "--resume", str(out)]) == 0  # the killed one is no obstacle


def test_incidents_have_a_line_each(capsys, tmp_path):
    status, out, _ = ran(capsys, str(folder(tmp_path, escalated())))
    lines = [line.rstrip() for line in out.splitlines()]
    start = lines.index("incidents")
    assert lines[start + 1].startswith("   step 20: incident 1: loss spike at blocks.0.fc (weight); skip: the step was")
    assert lines[start + 2].endswith("widened; recovered at step 60; 5 steps and 500 ms lost")
    assert lines[start + 3] == f"   one on a page: mixprec doctor {tmp_path} --incident 2"
    assert lines[-1].endswith("2 incidents")
    assert status == (1 if "fault" in lines[-1] else 0)


@pytest.mark.parametrize(
    ("records", "told"), [(stopped(), "1 incident (1 stopped the run)"), ([incident(1)], "1 incident (1 open)")]
)
def test_an_incident_that_was_not_overcome_is_a_fault(capsys, tmp_path, records, told):
    status, out, _ = ran(capsys, str(folder(tmp_path, records)))
    assert status == 1
    assert out.splitlines()[-1].endswith(told)


def test_many_incidents_show_the_newest(capsys, tmp_path):
    records = [incident(n, step=n, outcome="recovered", resolved=n + 1) for n in range(1, 31)]
    status, out, _ = ran(capsys, str(folder(tmp_path, records)), "--top", "3")
    assert status == 0
    assert "27 earlier: --top 0 shows all" in out
    assert "incident 28" in out
    assert "incident 27" not in out
    assert "incident 1:" in ran(capsys, str(tmp_path), "--top", "0")[1]


def test_a_post_mortem_is_printed_or_written(capsys, tmp_path):
    run = folder(tmp_path / "run", stopped())
    status, out, err = ran(capsys, str(run), "--incident", "1")
    assert (status, err) == (0, "")
    assert out.startswith("# Incident 1 of run\n")
    assert ran(capsys, str(run), "--incident", "1", "--out", str(tmp_path / "one.md")) == (0, "", "")
    assert (tmp_path / "one.md").read_text(encoding="utf-8") == out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--incident", "4"), "has no incident 4: there are 1"),
        (("--incident", "1", "--recipe", "b"), "has no run of recipe b: it has mine seed 0"),
        (("--incident", "1", "--json"), "leave --json out, or --incident"),
        (("--incident", "1", "--workload", "a.py"), "leave --workload out, or --incident"),
        (("--out", "a.md"), "give --incident K too"),
    ],
)
def test_a_post_mortem_that_cannot_be_is_told(capsys, tmp_path, words, told):
    status, out, err = ran(capsys, str(folder(tmp_path, stopped())), *words)
    assert (status, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
