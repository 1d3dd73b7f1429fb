"""Targets: what a file may say, and what is told of one that says something else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mixprec.planner import (
    CostTarget,
    LatencyTarget,
    LayerTarget,
    MemoryTarget,
    QualityTarget,
    Targets,
    write_targets_template,
)


def load(folder: Path, text: str) -> Targets:
    file = folder / "targets.toml"
    file.write_text(text, encoding="utf-8")
    return Targets.load(file)


def test_every_field_is_optional(tmp_path):
    assert load(tmp_path, "") == Targets()
    assert Targets().loss_budget(2.0) is None


def test_a_metric_whose_direction_nobody_told_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r'quality.accuracy does not tell.*accuracy = { absolute = 0.02, better = "hi'):
        load(tmp_path, "[quality]\naccuracy = 0.02\n")
    text = "[quality]\nval_loss = 0.1\n'perplexity/en' = 0.1\naccuracy = { relative = 0.1, better = 'higher' }\n"
    assert load(tmp_path, text).directions == {"val_loss": "lower", "perplexity/en": "lower", "accuracy": "higher"}


def test_reads_all_that_can_be_said(tmp_path):
    text = """
        [quality]
        loss = 0.01
        "loss/letters" = { relative = 0.02 }
        accuracy = { absolute = 0.005, better = "higher" }
        [latency]
        ratio = 0.8
        milliseconds = 120
        [memory]
        bytes = 16_000_000_000
        share = 0.9
        [cost]
        largest = 250
        [[layers]]
        head = true
        candidates = ["keep"]
        [[layers]]
        match = "blocks.*.attn.*"
        type = "Linear"
        candidates = ["keep", "mxfp8"]
    """
    assert load(tmp_path, text) == Targets(
        quality={
            "loss": QualityTarget(absolute=0.01),
            "loss/letters": QualityTarget(relative=0.02),
            "accuracy": QualityTarget(absolute=0.005, better="higher"),
        },
        latency=LatencyTarget(ratio=0.8, milliseconds=120),
        memory=MemoryTarget(bytes=16_000_000_000, share=0.9),
        cost=CostTarget(largest=250),
        layers=(
            LayerTarget(head=True, candidates=("keep",)),
            LayerTarget(match="blocks.*.attn.*", type="Linear", candidates=("keep", "mxfp8")),
        ),
    )


def test_a_budget_of_the_loss_is_absolute_or_of_the_baselines():
    assert Targets(quality={"loss": QualityTarget(absolute=0.02)}).loss_budget(3.0) == 0.02
    assert Targets(quality={"loss": QualityTarget(relative=0.02)}).loss_budget(-3.0) == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[qualty]\nloss = 1", r"unknown key in targets: 'qualty': .*did you mean 'quality'"),
        ("[latency]\nrato = 1", r"unknown key in latency: 'rato': .*did you mean 'ratio'"),
        ("[quality]\nloss = { absolut = 1 }", r"unknown key in quality.loss: 'absolut': .*did you mean 'absolute'"),
        ("[[layers]]\nmach = 'a'\ncandidates = ['keep']", r"unknown key in layers\[0\]: 'mach': .*'match'"),
        ("[latency]\nratio = '0.8'", r"latency.ratio is '0.8': input should be a valid number"),
        ("[latency]\nratio = true", r"latency.ratio is True: input should be a valid number"),
        ("[memory]\nbytes = 1.5", r"memory.bytes is 1.5: input should be a valid integer"),
        ("[latency]\nratio = -1", r"latency: ratio is -1.0, expected a finite number, 0 or more"),
        ("[quality]\nloss = inf", r"quality.loss: absolute is inf"),
        ("[quality]\nloss = {}", r"quality.loss: a quality target has neither of absolute and relative"),
        ("[quality]\nloss = 'small'", r"quality.loss is 'small'"),
        ("[quality.loss]\nabsolute = 1\nbetter = 'upper'", r"quality.loss.better is 'upper'.*'lower' or 'higher'"),
        ("[cost]", r"cost has no largest"),
        ("[[layers]]\nmatch = 'a'", r"layers\[0\] has no candidates"),
        ("[[layers]]\ncandidates = []", r"layers\[0\]: layers \"\*\" may have no candidates"),
        ("[[layers]]\ncandidates = ['keep']\nfirst_blocks = -1", r"layers\[0\]: .*first_blocks=-1"),
        ("latency = 3", r"latency is 3"),
        ("quality", r"is not TOML"),
    ],
)
def test_what_is_no_target_is_told_with_its_place(tmp_path, text, told):
    with pytest.raises(ValueError, match=told):
        load(tmp_path, text)


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(FileNotFoundError):
        Targets.load(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        Targets.load(tmp_path / "bytes.toml")


def test_numbers_are_checked_without_a_file_too():
    with pytest.raises(ValueError, match="share is nan"):
        MemoryTarget(share=math.nan)
    with pytest.raises(ValueError, match="has both of"):
        QualityTarget(absolute=1, relative=1)


def test_the_template_loads_and_is_never_overwritten(tmp_path):
    written = write_targets_template(tmp_path / "targets.toml")
    assert Targets.load(written) == Targets(quality={"loss": QualityTarget(absolute=0.01)})
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        write_targets_template(written)
    with pytest.raises(ValueError, match=r"ends in \.toml"):
        write_targets_template(tmp_path / "targets.yml")


def test_all_that_the_template_offers_can_be_said(tmp_path):
    text = write_targets_template(tmp_path / "a.toml").read_text("utf-8")
    lines = [line.removeprefix("# ") if "=" in line or line.startswith("# [") else line for line in text.splitlines()]
    said = load(tmp_path, "\n".join(line for line in lines if "=" in line or line.startswith("[")))
    assert said.cost is not None
    assert [layer.head for layer in said.layers] == [True]
    assert said.quality["accuracy"].better == "higher"
