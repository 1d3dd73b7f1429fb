"""The commands as a user types them, each in a process of its own."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mixprec.cli import main
from mixprec.records import Record, RunEndRecord, StepRecord, read_records

SOURCE = Path(__file__).resolve().parents[2] / "src"


def environment() -> dict[str, str]:
    paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run ``mixprec ...`` in a folder; a step beyond two minutes is a hang."""
    words = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(
        words, cwd=folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


@dataclass(frozen=True)
class Here:
    """Runs ``mixprec ...`` in this process, where a process of its own would show nothing more."""

    folder: Path
    patch: pytest.MonkeyPatch
    printed: pytest.CaptureFixture[str]

    def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command)
        with self.patch.context() as patch:
            patch.chdir(self.folder)
            self.printed.readouterr()
            status = main(words[1:])
        out, err = self.printed.readouterr()
        return subprocess.CompletedProcess(words, status, out, err)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    return Here(tmp_path, monkeypatch, capsys)


def read(folder: Path) -> list[Record]:
    return read_records(folder / "records.jsonl")


def steps(folder: Path, recipe: str) -> list[float]:
    return [r.loss for r in read(folder) if isinstance(r, StepRecord) and r.recipe == recipe]


def test_compare_ends_with_the_table_and_the_report(tmp_path: Path, here: Here):
    done = run("mixprec compare gpt --recipes fp32,bf16,mxfp8,nvfp4 --seeds 1 --steps 2 --out a", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("fp32", "bf16", "mxfp8", "nvfp4"):
        assert name in done.stdout
        assert (tmp_path / "a" / "recipes" / f"{name}.toml").is_file()
    assert "here: emulated" in done.stdout
    assert done.stdout.rstrip().splitlines()[-1] == f"report: {Path('a', 'report.html')}"
    assert (tmp_path / "a" / "report.html").stat().st_size > 100_000
    assert "Traceback" not in done.stderr
    assert "nanobind" not in done.stderr

    again = run("mixprec report a", tmp_path)
    assert (again.returncode, again.stderr) == (0, "")

    refused = here("mixprec compare gpt --steps 2 --out a")
    assert refused.returncode == 2
    assert "--resume a" in refused.stderr


def test_analyze_tells_what_casts_do_to_stored_tensors(tmp_path: Path, here: Here):
    random = torch.Generator().manual_seed(0)
    weights = {f"blocks.{i}.weight": torch.randn(64, 128, generator=random) for i in range(30)}
    weights["blocks.7.weight"] **= 5
    torch.save({"model": weights, "step": 3, "rng": torch.get_rng_state()}, tmp_path / "checkpoint.pt")
    command = "mixprec analyze checkpoint.pt --casts 'mxfp4, nvfp4 rht16' --json a.json --csv a.csv"
    done = run(command, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("checkpoint.pt: 10 of 30 tensors, lowest SNR first")
    first = next(line for line in done.stdout.splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in first.split("│")[1:4]] == ["model.blocks.7.weight", "mxfp4", "4.25"]
    assert "skipped 1 tensor (uint8, not floating point): rng" in done.stdout
    totals = json.loads((tmp_path / "a.json").read_text())["totals"]
    assert [(total["cast"], total["elements"]) for total in totals] == [
        ("mxfp4", 30 * 8192),
        ("nvfp4 rht16", 30 * 8192),
    ]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 61

    save_file({name: weight * math.nan for name, weight in weights.items()}, tmp_path / "diverged.safetensors")
    refused = here("mixprec analyze diverged.safetensors --casts mxfp4 --json b.json")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "has 8192 NaN and 0 infinite elements" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.csv",
        "a.json",
        "checkpoint.pt",
        "diverged.safetensors",
    ]


def test_init_writes_a_workload_that_compares(tmp_path: Path, here: Here):
    assert run("mixprec init my.py", tmp_path).returncode == 0
    done = run("mixprec compare my.py --recipes fp32,bf16 --seeds 2 --steps 5", tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("compare-my-")
    assert len([r for r in read(folder) if isinstance(r, RunEndRecord) and r.status == "done"]) == 4
    kept = here("mixprec init my.py")
    assert kept.returncode == 2
    assert "not overwritten" in kept.stderr


def test_a_users_error_is_one_line_with_its_place(tmp_path: Path):
    (tmp_path / "my.py").write_text("def workload(seed, device):\n    return undefined\n")
    done = run("mixprec compare my.py", tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "my.py, line 2: NameError: name 'undefined' is not defined" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["my.py"]


#: The built-in GPT, which would spend most of its time on evaluations that these tests do not look at.
SMALL = """from mixprec.compare.workloads.gpt import GPTConfig, workload as gpt

def workload(seed, device, steps=40):
    return gpt(seed, device, steps=steps, config=GPTConfig(evaluation_batches=1))
"""


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(tmp_path: Path):
    (tmp_path / "small.py").write_text(SMALL)
    command = "mixprec compare small.py --recipes fp32,bf16 --seeds 1 --steps 40 --out a"
    process = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    records = tmp_path / "a" / "records.jsonl"
    deadline = time.monotonic() + 100
    while not (records.exists() and records.read_text().count('"type": "step"') > 8):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "fp32" in out
    assert "report: " in out
    assert (tmp_path / "a" / "report.html").is_file()
    assert "Traceback" not in err
    (go_on,) = [line.partition(":")[2].strip() for line in err.splitlines() if line.startswith("go on:")]
    assert go_on == "mixprec compare small.py --resume a"
    assert 2 <= len(steps(tmp_path / "a", "fp32")) < 40

    resumed = run(go_on, tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert len(steps(tmp_path / "a", "fp32")) == len(steps(tmp_path / "a", "bf16")) == 40
    ends = [(r.recipe, r.status) for r in read(tmp_path / "a") if isinstance(r, RunEndRecord)]
    assert sorted(ends) == [("bf16", "done"), ("fp32", "done")]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path):
    (tmp_path / "locked").mkdir(mode=0o500)
    done = run("mixprec compare gpt --steps 2 --out locked/a", tmp_path)
    assert done.returncode == 2
    assert "Permission denied" in done.stderr
    assert list((tmp_path / "locked").iterdir()) == []


def test_a_reader_that_leaves_is_no_error(tmp_path: Path):
    done = subprocess.run(
        f"{shlex.quote(sys.executable)} -m mixprec formats | head -1",
        shell=True,
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""


def test_a_second_writer_is_refused_and_the_doctor_reads_what_a_kill_left(tmp_path: Path, here: Here):
    assert here("mixprec init my.py").returncode == 0
    command = "mixprec compare my.py --recipes fp32 --seeds 1 --steps 100000 --out a"
    process = subprocess.Popen(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    records = tmp_path / "a" / "records.jsonl"
    deadline = time.monotonic() + 100
    while not (records.exists() and records.read_text().count('"type": "step"') > 6):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    refused = here("mixprec compare my.py --resume a")
    is_running = process.poll() is None
    process.kill()
    process.wait()
    assert is_running
    assert refused.returncode == 2
    assert f"run folder a is being written by process {process.pid} on" in refused.stderr
    assert "Traceback" not in refused.stderr
    with open(records, "ab") as file:
        file.write(b'{"schema": 3, "type": "st')  # as if killed in the middle of a line
    before = records.read_bytes()
    told = here("mixprec doctor a")
    assert told.returncode == 0, told.stderr
    assert "left out: the last line of a/records.jsonl was cut off while it was written" in told.stdout
    assert "the run was never closed: its process ended without a word" in told.stdout
    assert f"process {process.pid} on" in told.stdout
    assert records.read_bytes() == before
    assert len(steps(tmp_path / "a", "fp32")) > 6
