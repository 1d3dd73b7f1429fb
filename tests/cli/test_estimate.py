"""``mixprec estimate``: tables, JSON, figure, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mixprec.cli import main

from .test_check import write

HARDWARE = """
name = "box"
title = "A box"
kind = "gpu"
memory = {value = 1e6, source = "made up"}
bandwidth = {value = 1e12, source = "made up"}
link = {value = 1e11, source = "made up"}
network = {value = 1e10, source = "made up"}

[rates]
fp32 = {value = 1e13, source = "made up"}
bf16 = {value = 1e14, source = "made up"}
"""
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


@pytest.fixture
def box(tmp_path: Path) -> str:
    (tmp_path / "box.toml").write_text(HARDWARE)
    return str(tmp_path / "box.toml")


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["estimate", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_memory_alone_without_hardware(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = write(tmp_path, "return self.layer(x)")
    assert main(["estimate", job, "--recipe", "fp32"]) == 0
    text = capsys.readouterr().out
    assert "peak of a step" in text
    assert "no --hardware was named" in text
    assert "largest batch" not in text


def test_json(tmp_path: Path, box: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = write(tmp_path, "return self.layer(x)")
    found = asked(
        capsys, job, "--hardware", box, "--count", "4", "--steps", "3600", "--price", "2", "--reruns", "0.5",
        "--batch", "16",
    )  # fmt: skip
    assert (found["hardware"], found["count"], found["validated"]) == ("box", 4, False)
    fp32, bf16 = found["recipes"]
    assert (fp32["recipe"], fp32["samples"], fp32["memory"]["weights"]) == ("fp32", 16, 80)
    assert fp32["seconds"] == pytest.approx(sum(t["seconds"] for t in fp32["terms"]) + fp32["summing"])
    assert fp32["summing"] == pytest.approx(2 * 3 / 4 * 80 / 1e11)
    assert fp32["cost"]["hours"] == pytest.approx(1.5 * fp32["seconds"])
    assert fp32["cost"]["money"] == pytest.approx(1.5 * fp32["seconds"] * 4 * 2)
    assert [line["what"] for line in fp32["cost"]["lines"]] == ["training", "reruns"]
    assert any("not validated" in note for note in fp32["notes"])
    assert min(bf16["largest"]["samples"], fp32["largest"]["samples"]) > 16
    assert fp32["largest"]["limit"] == 900_000


def test_tables(tmp_path: Path, box: str, capsys: pytest.CaptureFixture[str]) -> None:
    job = write(tmp_path, "return self.layer(x)")
    assert main(["estimate", job, "--hardware", box, "--epochs", "2", "--samples", "800"]) == 0
    text = capsys.readouterr().out
    assert "1.00" in text.split("times that of fp32")[1].splitlines()[0]
    assert "200 steps under fp32" in text
    assert "not validated" in text


def test_figure(tmp_path: Path, box: str, capsys: pytest.CaptureFixture[str]) -> None:
    job, page = write(tmp_path, "return self.layer(x)"), tmp_path / "page.html"
    assert main(["estimate", job, "--hardware", box, "--figure", str(page)]) == 0
    assert "saved activations" in page.read_text(encoding="utf-8")


def test_a_config_over_many_devices(tmp_path: Path, box: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    words = [str(config), "--hardware", box, "--recipe", "bf16", "--count", "8", "--tensor", "2", "--sequence", "32"]
    (one,) = asked(capsys, *words, "--tokens", "12800")["recipes"]
    assert one["layout"]["data"] == 4
    assert one["cost"]["steps"] == 100
    assert one["peak"] == sum(one["memory"].values())
    assert main(["estimate", *words]) == 0
    assert "the fullest device" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hardware", "h1000"], "unknown hardware 'h1000'"),
        (["--steps", "3"], "--steps needs --hardware"),
        (["--steps", "3", "--tokens", "4"], "--steps and --tokens were given"),
        (["--epochs", "3", "--hardware", "h100"], "--epochs needs --samples"),
        (["--batch", "0"], "--batch got 0"),
        (["--figure", "a.svg"], "ends in .html or .png"),
    ],
)
def test_mistakes(tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", write(tmp_path, "return self.layer(x)"), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("forward", "loss", "message"),
    [
        ("return x * self.layer.bias", "model(batch).square().mean()", "multiplies no matrices"),
        ("return self.layer(x)", "model(batch).sum() / 0", "the loss of the first batch is"),
    ],
)
def test_workloads_of_no_use(
    tmp_path: Path, forward: str, loss: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimate", write(tmp_path, forward, loss)]) == 2
    assert message in capsys.readouterr().err


def test_counts_that_no_layout_fits(tmp_path: Path, box: str, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG))
    assert main(["estimate", str(config), "--hardware", box, "--count", "6", "--tensor", "4"]) == 2
    assert "--count 6 is no multiple" in capsys.readouterr().err
