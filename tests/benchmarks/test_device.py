"""The script for GPUs: what it does without one, and that it runs through."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.architecture import tree


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.device", *options]
    return subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    done = run("--out", str(tmp_path / "device.json"))
    assert done.returncode == 2
    assert "no GPU" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_runs_through_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "device.json"
    done = run("--device", "cpu", "--out", str(out))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(out.read_text())["rows"]
    compared = [row for row in rows if "compared" in row]
    assert compared
    assert all(row["compared"] > 100_000 and row["different"] == 0 for row in compared)
    names = {row["name"] for row in rows}
    assert {"copy", "nvfp4 sr rht16", "fp32", "bf16", "mxfp8", "nvfp4"} <= names
    assert all(row["ratio"] > 0 for row in rows if "ratio" in row)


def test_a_difference_is_an_error(tmp_path: Path) -> None:
    """A backend that is wrong in one bit is told by name."""
    program = """
import sys, torch
import benchmarks._device_equality as equality
from mixprec.kernels import get_backend

class Wrong(type(get_backend("reference"))):
    def round(self, x, *args, **kwargs):
        y = super().round(x, *args, **kwargs)
        y.view(torch.int32)[77] ^= 1
        return y

equality.default_backend = lambda device: Wrong()
from benchmarks.device import main
sys.argv = ["device", "--device", "cpu", "--seconds", "0", "--out", sys.argv[1]]
sys.exit(main())
"""
    command = [sys.executable, "-c", program, str(tmp_path / "device.json")]
    done = subprocess.run(command, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "DIFFERENT: fp32" in done.stdout.splitlines()[-1]
    assert "left out" in done.stdout
