"""`mixprec hardware` and `mixprec calibrate`: figures with their sources, and a measured machine that reads back."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.hardware import load_hardware, names


def test_every_device_is_listed_with_its_rates(capsys: pytest.CaptureFixture[str]):
    assert main(["hardware"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(any(f" {name} " in line for line in lines) for name in names())
    h100 = next(line for line in lines if " h100-sxm " in line)
    assert "989" in h100
    assert "1979" in h100
    assert "3.35" in h100


def test_a_device_shows_the_source_of_every_figure(capsys: pytest.CaptureFixture[str]):
    assert main(["hardware", "rtx4090"]) == 0
    out = capsys.readouterr().out
    assert "165.2 TFLOP/s" in out
    assert "330.3 TFLOP/s" in out
    assert "25.76 GB" in out  # 24 GiB, of which the driver reports 24564 MiB
    assert "1.008 TB/s" in out
    assert "not validated" in out
    assert "whitepaper" in out


def test_an_unknown_device_is_told_with_a_near_one(capsys: pytest.CaptureFixture[str]):
    assert main(["hardware", "h10"]) == 2
    assert "h100" in capsys.readouterr().err


def test_a_machine_that_is_measured_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "here.toml"
    assert main(["calibrate", "--quick", "--out", str(out), "--name", "here"]) == 0
    hardware = load_hardware(out)
    assert hardware.name == "here"
    assert hardware.kind == "cpu"
    assert not hardware.is_validated  # few sizes
    assert hardware.rates["fp32"].value > 1e8
    capsys.readouterr()
    assert main(["hardware", str(out)]) == 0
    assert "fp32 products" in capsys.readouterr().out


def test_no_threads_are_refused_before_anything_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["calibrate", "--threads", "0", "--out", str(tmp_path / "x.toml")]) == 2
    assert "--threads" in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()
