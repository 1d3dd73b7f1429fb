"""Each script of the gallery, started as a user starts it, with small arguments."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def printed(script: str, *arguments: str | Path) -> str:
    """What a script prints; it must end well, within a minute."""
    words = [sys.executable, str(EXAMPLES / script), *map(str, arguments)]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(out: str) -> list[float]:
    return [float(found) for found in re.findall(r"^step +\d+  loss (\S+)$", out, re.MULTILINE)]


def assert_page(path: Path, *words: str) -> None:
    page = path.read_text(encoding="utf-8")
    assert page.rstrip().endswith("</html>")
    assert [word for word in words if word not in page] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_is_short_and_says_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 80
    assert f"    python examples/{path.name}" in (ast.get_docstring(ast.parse(text)) or "")
    assert path.name in (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["fp16", "mxfp8"])
def test_plain_loop(tmp_path: Path, recipe: str) -> None:
    out = printed("plain_loop.py", "--recipe", recipe, "--steps", "60", "--out", tmp_path / "run")
    found = losses(out)
    assert len(found) == 11
    assert found[-1] < found[0] / 4
    assert f"audit of recipe {recipe}" in out
    assert_page(tmp_path / "run" / "report.html", recipe)


@pytest.mark.slow
def test_gpt2_own_text(tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text("the quick brown fox jumps over the lazy dog; " * 200, encoding="utf-8")
    small = ("--steps", "30", "--width", "32", "--layers", "1", "--context", "32")
    out = printed("gpt2_own_text.py", text, "--recipe", "bf16", *small, "--out", tmp_path / "run")
    before, after = (float(found) for found in re.findall(r"held-out loss (\S+)", out))
    assert before == pytest.approx(5.545, abs=0.15)  # ln 256: every byte is as likely
    assert after < before - 0.5
    assert "memory of recipe bf16" in out
    assert_page(tmp_path / "run" / "report.html", "bf16")


@pytest.mark.slow
def test_gpt2_refuses_a_text_that_is_too_short(tmp_path: Path) -> None:
    text = tmp_path / "short.txt"
    text.write_text("short", encoding="utf-8")
    words = [sys.executable, str(EXAMPLES / "gpt2_own_text.py"), str(text), "--out", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "has 5 bytes: at least 2560 are needed" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_resnet_larger_batch_fp16(tmp_path: Path) -> None:
    out = printed("resnet_larger_batch_fp16.py", "--batch", "32", "--steps", "20", "--out", tmp_path)
    forecast = re.findall(r"^(\S+): batch (\d+)[^,]*, peak ([\d,]+) bytes \(forecast\)$", out, re.MULTILINE)
    assert [row[0] for row in forecast] == ["fp32", "bf16", "fp16", "fp16-residual"]
    samples = {name: int(batch) for name, batch, _ in forecast}
    peaks = {name: int(peak.replace(",", "")) for name, _, peak in forecast}
    # Which engine a bf16 product has, and with it what is kept beside it, depends on the processor.
    assert samples["fp32"] == 32 < samples["fp16-residual"] <= samples["bf16"]
    for name, peak in peaks.items():
        assert 0.95 * peaks["fp32"] < peak <= peaks["fp32"], name  # one sample more would not fit
    row = r"^(\S+): batch (\d+), loss (\S+) -> (\S+), saved activations ([\d,]+) bytes \(forecast ([\d,]+)\)"
    rows = re.findall(row, out, re.MULTILINE)
    assert [(name, int(batch)) for name, batch, *_ in rows] == [
        (name, samples[name]) for name in ("fp32", "fp16-residual")
    ]
    for name, _, first, last, saved, expected in rows:
        assert float(last) < float(first)
        assert int(saved.replace(",", "")) <= 1.001 * int(expected.replace(",", ""))
        assert_page(tmp_path / name / "report.html", name)
    wide, narrow = (int(row[4].replace(",", "")) / int(row[1]) for row in rows)
    assert 0.45 < narrow / wide < 0.55  # 16 bits for 32; the loss and masks beside


@pytest.mark.slow
def test_gpt_bf16(tmp_path: Path) -> None:
    small = ("--width", "64", "--layers", "2", "--context", "64")
    out = printed("gpt_bf16.py", "--steps", "12", *small, "--out", tmp_path)
    rows = re.findall(r"^(\w+) +([\d.]+) +([\d,]+) +([\d,]+) bytes  (\w+ \d+%.*)$", out, re.MULTILINE)
    assert [row[0] for row in rows] == ["fp32", "bf16"]
    (fp32, bf16), (wide, narrow) = ([float(row[i].replace(",", "")) for row in rows] for i in (1, 3))
    assert abs(fp32 - bf16) < 0.05
    assert fp32 < 4.5  # ln of about 100 characters is where it began
    assert narrow < 0.7 * wide
    assert all(int(row[2].replace(",", "")) > 0 for row in rows)
    for recipe in ("fp32", "bf16"):
        assert_page(tmp_path / recipe / "report.html", recipe)


@pytest.mark.slow
def test_fp4_recipe_study(tmp_path: Path) -> None:
    out = printed("fp4_recipe_study.py", "--steps", "6", "--seeds", "2", "--out", tmp_path / "run")
    names = ["bf16", *(f"nvfp4[wgrad.grad_output.rounding={rounding}]" for rounding in ("nearest", "stochastic"))]
    assert sorted(re.findall(r"^(\S+), seed (\d): done$", out, re.MULTILINE)) == sorted(
        (name, seed) for name in names for seed in "01"
    )
    table = [line.replace("\\", "").split(" | ") for line in out.splitlines() if line.startswith("| ")]
    assert [row[0].removeprefix("| ") for row in table] == ["recipe", "---", *names]
    assert table[0][2] == "gap in loss"
    assert all(re.fullmatch(r"[+−][\d.]+ \[[+−][\d.]+, [+−][\d.]+\]", row[2]) for row in table[3:])
    assert_page(tmp_path / "run" / "report.html", "What this run cannot tell")
