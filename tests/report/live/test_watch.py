from __future__ import annotations

import io
import re
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from mixprec.monitor.export import Exporter
from mixprec.records import RunEndRecord, record_line, write_records
from mixprec.report.live import LiveView, watch
from tests.report.guarded_run import guarded, incident, resumed, write_guarded_run
from tests.report.monitored_run import _step as step
from tests.report.monitored_run import monitored, write_monitored_run
from tests.report.run_folder import comparison, write_run_folder


def shown(folder: Path, *, width: int = 120, height: int = 60, terminal: bool = True, **options: object) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, height=height, color_system=None)
    watch(folder, once=True, console=console, **options)  # pyright: ignore[reportArgumentType]
    return out.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_monitored_run(tmp_path_factory.mktemp("runs") / "a")


def test_a_session_shows_its_numbers(run: Path):
    text = shown(run)
    assert "fp16, seed 0  step 400" in text
    assert re.search(r"\n1\.\d{4} +0\.8 +2\^17 +3 of 403 ", text)
    assert re.search(r"blocks\.0\.attn\.qkv \(grad_output\) +fp16 +0 % +\d+ %", text)
    assert text.index("350  fault: flushed") < text.index("210  warning: loss spike"), "the newest first"
    assert re.search("[\u2801-\u28ff]{3}", text), "the loss is drawn"


@pytest.mark.parametrize(("width", "height"), [(60, 30), (80, 24), (200, 80)])
def test_it_fits_the_terminal(run: Path, width: int, height: int):
    lines = shown(run, width=width, height=height).splitlines()
    assert max(map(len, lines)) <= width


def test_a_comparison_shows_every_run_and_one_in_full(tmp_path: Path):
    folder = write_run_folder(tmp_path / "gpt", comparison(seeds=2, steps=40))
    text = shown(folder)
    assert text.startswith("gpt ")
    assert re.search(r"▸  nvfp4 +1 +40 +\d\.\d{4} +1  done", text)
    assert len(re.findall("  done", text)) == 9, "eight runs, and the one in full"
    text = shown(folder, recipe="bf16", seed=0)
    assert re.search(r"▸  bf16 +0 +40 ", text)
    assert "bf16, seed 0  step 40 of 40  done" in text


def test_a_pipe_gets_one_picture_without_cursor_or_curve(run: Path):
    text = shown(run, terminal=False, width=80)
    assert "\x1b" not in text
    assert not re.search("[\u2801-\u28ff]", text)
    assert re.search(r"350  fault: flushed .*becomes? zero; keep this gradient in bf16", text), "on one line"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: None, "does not exist: --wait waits"),
        (lambda folder: folder.mkdir(), "holds no records.jsonl: expected the run folder of"),
        (lambda folder: _write(folder, ""), "holds no complete record of a step yet"),
        (lambda folder: _write(folder, '{"schema": 3, "type": "st'), "holds no complete record of a step yet"),
        (lambda folder: _write(folder, '{"schema": 99, "type": "step"}\n'), "schema version 99.*install a newer"),
        (lambda folder: _write(folder, "hello\n"), "line 1 is no record but b'hello'"),
        (lambda folder: folder.write_text("x"), "is a file"),
    ],
)
def test_what_is_no_run_is_told(tmp_path: Path, make, told: str):
    make(tmp_path / "run")
    with pytest.raises(ValueError, match=told):
        shown(tmp_path / "run")


def _write(folder: Path, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "records.jsonl").write_text(text)


def test_a_recipe_that_is_not_there_is_told_with_those_that_are(run: Path):
    with pytest.raises(ValueError, match=r"no run of mxfp8 yet: it has fp16 seed 0"):
        shown(run, recipe="mxfp8")


def test_damage_and_a_cut_off_end_hide_nothing_else(tmp_path: Path):
    folder = tmp_path / "run"
    whole = record_line(step(0, 2.5, applied=True)) + "rubbish\n" + record_line(step(1, 2.25, applied=True))
    _write(folder, whole + record_line(step(2, 9.0, applied=True))[:40])
    text = shown(folder)
    assert "step 2" in text
    assert "2.2500" in text
    assert "1 line could not be read" in text
    assert "line 2 is no record" in " ".join(text.split())


def _drawn(out: io.StringIO, what: str, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while what not in out.getvalue():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_it_follows_a_run_that_begins_later_grows_and_ends(tmp_path: Path):
    folder, out = tmp_path / "run", io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, height=40, color_system=None)
    watching = threading.Thread(
        target=watch, args=(folder,), kwargs={"wait": True, "every": 0.02, "console": console}, daemon=True
    )
    watching.start()
    records = list(comparison(seeds=1, steps=8))
    folder.mkdir()
    text = "".join(map(record_line, records))
    half = text.index('"step": 3') + 20
    with open(folder / "records.jsonl", "w") as file:
        file.write(text[:half])
        file.flush()
        assert _drawn(out, "fp32, seed 0  step 3 of 8")
        file.write(text[half:])
    watching.join(10)
    assert not watching.is_alive(), "a comparison that has ended ends the watching"
    assert _drawn(out, "nvfp4, seed 0  step 8 of 8  done")


def test_ctrl_c_leaves_the_last_picture_and_gives_the_cursor_back(run: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixprec.report.live._watch.time.sleep", interrupted)
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        watch(run, console=Console(file=out, force_terminal=True, width=100, height=50))
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1
    assert "loss spike" in out.getvalue()


def test_ctrl_c_is_no_failure(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from mixprec.cli import main

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mixprec.report.live.watch", interrupted)
    assert main(["watch", str(run)]) == 0


def test_the_command_prints_one_picture_into_a_pipe(run: Path, capsys: pytest.CaptureFixture[str]):
    from mixprec.cli import main

    assert main(["watch", str(run)]) == 0
    assert "worst of 99 tensors" in capsys.readouterr().out
    assert main(["watch", str(run.parent / "nowhere")]) == 2
    assert "mixprec: " in capsys.readouterr().err


def test_a_loop_shows_its_own_records():
    out = io.StringIO()
    view = LiveView("gpt", console=Console(file=out, force_terminal=True, width=100, height=40), every=0.0)
    assert isinstance(view, Exporter)
    for record in list(monitored())[:3]:
        view.take(record)
    view.close()
    view.close()
    assert "step 1" in out.getvalue()
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1, "the cursor is given back"


def test_a_log_file_gets_a_line_for_each_finding_and_the_last_picture():
    out = io.StringIO()
    with LiveView("gpt", console=Console(file=out, width=100)) as view:
        for record in monitored():
            view.take(record)
    head, _, rest = out.getvalue().partition("\n")
    assert head.startswith("step 210: warning: loss spike: the loss is 3.91")
    assert "fp16, seed 0  step 400" in rest


def test_a_plain_loop_tells_its_steps():
    out = io.StringIO()
    with LiveView("mine", recipe="bf16", console=Console(file=out, width=100)) as view:
        view.step(2.5, loss_scale=1024.0)
        view.step(float("inf"), applied=False)
        view.step(2.25, grad_norm=0.5, tokens=128)
    text = out.getvalue()
    assert "mine  bf16, seed 0  step 2" in text
    assert re.search(r"2\.2500 +0\.5 +– +1 of 3", text)


def test_a_folder_that_is_written_anew_is_read_anew(tmp_path: Path):
    from mixprec.records import RecordFollower

    path = tmp_path / "records.jsonl"
    write_records(path, [step(0, 2.5, applied=True), step(1, 2.5, applied=True)])
    follower = RecordFollower(path)
    assert len(follower.read().records) == 2
    (tmp_path / "new").write_text(record_line(RunEndRecord(recipe="a", seed=0, status="done")))
    (tmp_path / "new").replace(path)
    followed = follower.read()
    assert followed.is_anew
    assert [type(record) for record in followed.records] == [RunEndRecord]


def test_incidents_are_shown_with_what_was_done_and_what_came_of_it(tmp_path: Path):
    folder = write_guarded_run(tmp_path / "run")
    text = shown(folder, width=200)
    assert re.search(
        r"100  1: loss spike at blocks.0.attn.qkv \(input\)  rewind  recovered at step 120  back to step 90, "
        r"batches 97 to 99 left out; 10 steps and 2.50 s lost",
        text,
    )
    assert "fp16, seed 0  step 150" in text
    write_records(folder / "records.jsonl", [incident(2, step=150, site="", rung="stop", outcome="stopped")])
    text = shown(folder, width=200)
    assert text.index("2: loss spike  stop  stopped the run") < text.index("1: loss spike"), "the newest first"
    for width, height in ((60, 30), (80, 24)):
        assert max(map(len, shown(folder, width=width, height=height).splitlines())) <= width


def test_an_open_incident_is_counted_and_its_settled_record_takes_its_place(tmp_path: Path):
    folder = tmp_path / "run"
    records = list(guarded())
    _write(folder, "".join(map(record_line, records[:103])))
    text = shown(folder)
    assert re.search(r"incidents *\n.* 1, 1 open", text)
    assert re.search(r"rewind +open", text)
    write_records(folder / "records.jsonl", records[103:])
    text = shown(folder)
    assert "1, 1 open" not in text
    assert "rewind  recovered at step 120" in text


def test_a_log_file_gets_a_line_for_news_of_an_incident():
    out = io.StringIO()
    with LiveView("gpt", console=Console(file=out, width=100)) as view:
        settled = incident(outcome="recovered", resolved=120)
        for record in (step(99, 9.1, applied=True), incident(), incident(batches=(97,)), resumed(), settled, settled):
            view.take(record)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("step 100: incident 1: loss spike at blocks.0.attn.qkv (input); rewind: back to step 90")
    assert lines[0].endswith("left out; open; 10 steps and 2.50 s lost")
    assert lines[1].endswith("recovered at step 120; 10 steps and 2.50 s lost")
    assert sum("incident 1:" in line for line in lines) == 2, "what says nothing new is no line"
