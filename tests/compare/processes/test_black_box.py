from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mixprec.compare import BlackBox, target_rows
from mixprec.compare.processes._metric_source import parse_metric, with_loss
from mixprec.compare.processes._placeholders import fill
from mixprec.planner import QualityTarget, Targets

COMMAND = "python t.py --seed {seed} --recipe {recipe} --out {run}"


def box(**changes: Any) -> BlackBox:
    settings: dict[str, Any] = {
        "command": COMMAND,
        "metrics": ("{run}/a.csv:val",),
        "names": ("fp32", "bf16"),
        "seeds": (0, 1),
    }
    return BlackBox(**(settings | changes))


def test_a_metric_that_is_a_loss_by_its_place_alone_is_not_judged():
    targets = target_rows(Targets(quality={"loss": QualityTarget(absolute=0.1)}))
    with pytest.raises(ValueError, match=r"'val' is the first metric without a name.*write val=loss if lower"):
        box(targets=targets)
    assert box(targets=targets, metrics=("{run}/a.csv:val=loss",)).targets == targets
    assert box(targets=targets, metrics=("{run}/a.csv:val_loss",)).targets == targets


def test_a_name_stays_one_word_whatever_is_in_it():
    words = box(names=("a", "x y; rm -rf $HOME 'ü'")).words("x y; rm -rf $HOME 'ü'", 3, Path("/r/runs/x y"))
    assert words == ["python", "t.py", "--seed", "3", "--recipe", "x y; rm -rf $HOME 'ü'", "--out", "/r/runs/x y"]


def test_a_value_is_not_filled_again():
    assert fill("{recipe}", {"recipe": "{seed}", "seed": "1"}) == "{seed}"


def test_quotes_hold_words_together_and_json_is_text():
    command = """python t.py '{"lr": {"a": 1}}' "{recipe} {seed}" --name={{epoch}}"""
    assert box(command=command).words("fp32", 1, Path("r"))[2:] == ['{"lr": {"a": 1}}', "fp32 1", "--name={epoch}"]


def test_files_of_metrics_are_filled():
    (file,) = box(metrics=("{run}/s{seed}-{recipe}.csv:val",)).files("bf16", 1, Path("/r"))
    assert (str(file.path), file.key, file.name) == ("/r/s1-bf16.csv", "val", "loss")


def test_steps_have_a_place():
    assert box(command=COMMAND + " --steps {steps}", steps=7).words("bf16", 1, Path("r"))[-1] == "7"


def test_the_loss_is_the_one_so_named_else_the_first_without_a_name():
    def names(*texts: str) -> list[str]:
        return [metric.name for metric in with_loss([parse_metric(text) for text in texts])]

    assert names("a:val", "a:acc") == ["loss", "acc"]
    assert names("a:acc=accuracy", "a:val") == ["accuracy", "loss"]
    assert names("a:acc", "a:val=loss") == ["acc", "loss"]
    assert names("a:t=train_loss", "a:val", "a:s=step_seconds") == ["train_loss", "loss", "step_seconds"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"command": ""}, "the command is empty"),
        ({"command": 'python "t.py'}, "cannot be split into words"),
        ({"command": COMMAND + " {epoch}"}, "unknown place in '{epoch}': 'epoch': expected one of recipe, seed, run"),
        ({"command": "python t.py {recipe}"}, "the command has no {seed}, so all 2 would run alike"),
        ({"command": "python t.py {seed}"}, "the command has no {recipe}"),
        ({"command": "no-such-program {seed} {recipe}"}, "program 'no-such-program' is not found"),
        ({"steps": 5}, "add {steps}"),
        ({"steps": 0}, "at least 1"),
        ({"metrics": ()}, "needs a metric"),
        ({"metrics": ("a.csv",)}, "metric 'a.csv' cannot be read: expected file:key"),
        ({"metrics": ("{run}/a.csv:",)}, "cannot be read"),
        ({"metrics": ("{run}/a.csv:x=",)}, "cannot be read"),
        ({"metrics": ("a.csv:val",)}, "metric file 'a.csv' is the same for several runs"),
        ({"metrics": ("a-{seed}.csv:val",)}, "is the same for several runs"),
        ({"metrics": ("{run}/{epoch}.csv:val",)}, "unknown place"),
        ({"metrics": ("{run}/a.csv:x=acc",)}, "none of the metrics acc is the loss"),
        ({"metrics": ("{run}/a.csv:x", "{run}/a.csv:y=acc", "{run}/a.csv:z=acc")}, "two metrics are named 'acc'"),
        ({"names": ("a", "a")}, "recipe a is named more than once"),
        ({"names": ("a", " ")}, "empty name"),
        ({"names": ("a b", "a-b")}, "would be one file"),
        ({"names": ()}, "needs a recipe and a seed"),
        ({"seeds": (1, 1)}, "seed 1 is named more than once"),
        ({"baseline": "fp16"}, "unknown baseline 'fp16'"),
    ],
)
def test_what_cannot_be_run_is_refused_with_what_to_do(changes: dict[str, Any], told: str):
    with pytest.raises(ValueError, match=r".") as caught:
        box(**changes)
    assert told in str(caught.value)
