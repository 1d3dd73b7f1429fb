"""`examples/numerics`: its workloads train, its recipes are those of the miniatures, its table judges rightly."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from examples.numerics import reproduce
from mixprec.compare import Comparison, compare, load_workload
from mixprec.planner import Targets
from mixprec.records import (
    ComparisonRecord,
    EvaluationRecord,
    RunEndRecord,
    Summary,
    TargetRow,
    read_records,
    summarize,
)
from mixprec.specs import LayerPrecision, LossScale, Recipe, recipe
from tests.miniatures.test_four_bits import nvfp4_recipe
from tests.miniatures.training import linear_recipe

FOLDER = Path(reproduce.__file__).parent
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text(encoding="utf-8"))
COMPARISONS = {reproduce.title(each): each for each in EXPECTED["comparisons"]}
TENSOR = "e2m1[tensor]"
OF_THE_TESTS = {
    "e4m3": linear_recipe("e4m3", LayerPrecision.uniform("e4m3")),
    "e4m3-e5m2": linear_recipe("as tested", LayerPrecision.of(input="e4m3", weight="e4m3", grad_output="e5m2")),
    "e2m1": linear_recipe("e2m1", LayerPrecision.uniform(TENSOR)),
    "e2m1-sr": linear_recipe("as tested", LayerPrecision.of(input=TENSOR, weight=TENSOR, grad_output=f"{TENSOR} sr")),
    "mxfp4-nearest": linear_recipe("as tested", LayerPrecision.uniform("mxfp4")),
    "nvfp4-nearest": linear_recipe("as tested", LayerPrecision.uniform("nvfp4")),
    "nvfp4-everywhere": nvfp4_recipe(),
    "nvfp4-forward-sr": nvfp4_recipe(forward="sr"),
    "fp16-scale-1": recipe("fp16", engine="emulated", loss_scale=LossScale(kind="static", initial=1.0)),
    "fp16-scale-32768": recipe("fp16", engine="emulated", loss_scale=LossScale(kind="static", initial=2.0**15)),
    "fp16-dynamic": recipe("fp16", engine="emulated", loss_scale=LossScale(kind="dynamic")),
}


def recipe_of(name: str) -> Recipe:
    file = FOLDER / "recipes" / f"{name}.toml"
    return Recipe.from_toml(file.read_text(encoding="utf-8")) if file.exists() else recipe(name)


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_workload_trains_under_its_recipes(name: str, tmp_path: Path) -> None:
    recipes = tuple(recipe_of(each) for each in COMPARISONS[name]["recipes"])
    assert [each.name for each in recipes] == COMPARISONS[name]["recipes"]
    assert Targets.load(FOLDER / f"{name}.toml").quality
    source = load_workload(str(FOLDER / f"{COMPARISONS[name]['workload']}.py"), steps=1)
    compare(Comparison(source=source, recipes=recipes, seeds=(0,)), tmp_path / "run")
    summary = summarize(read_records(tmp_path / "run" / "records.jsonl"))
    assert {row.recipe: row.status for row in summary.rows} == {each.name: "done" for each in recipes}


@pytest.mark.parametrize("name", OF_THE_TESTS)
def test_a_recipe_is_the_one_that_the_tests_train(name: str) -> None:
    assert dataclasses.replace(recipe_of(name), name="same") == dataclasses.replace(OF_THE_TESTS[name], name="same")


def test_e5m2_gradients_are_all_that_differs_from_mxfp8() -> None:
    wide, named = recipe_of("mxfp8-e5m2").rules[-1].precision, recipe("mxfp8").rules[-1].precision
    assert isinstance(wide, LayerPrecision)
    assert isinstance(named, LayerPrecision)
    narrow = {"dgrad_grad_output": named.dgrad_grad_output, "wgrad_grad_output": named.wgrad_grad_output}
    assert wide != named
    assert dataclasses.replace(wide, **narrow) == named


def test_every_recipe_file_is_used() -> None:
    used = {name for each in COMPARISONS.values() for name in each["recipes"]}
    assert {file.stem for file in (FOLDER / "recipes").iterdir()} <= used


def test_the_tests_that_are_named_are_there() -> None:
    for path in EXPECTED["tests"].values():
        assert (FOLDER.parents[1] / path).is_file(), path


def recorded(losses: dict[str, list[float]], *, limit: float = 0.05, status: str = "done") -> Summary:
    """Of a comparison with so many seeds as there are losses; the first recipe is the baseline."""
    names = tuple(losses)
    seeds = tuple(range(len(losses[names[0]])))
    target = TargetRow(name="quality.loss", limit=limit, unit="absolute", better="lower")
    header = ComparisonRecord(
        workload="w", recipes=names, baseline=names[0], seeds=seeds, steps=9, machine={}, versions={}, data={},
        targets=(target,),
    )  # fmt: skip
    found: list[EvaluationRecord | RunEndRecord] = []
    for name in names:
        for seed, loss in enumerate(losses[name]):
            found.append(EvaluationRecord(recipe=name, seed=seed, step=9, forward="recipe", metrics={"loss": loss}))
            ended = status if name != names[0] else "done"
            found.append(RunEndRecord(recipe=name, seed=seed, status=ended))
    return summarize([header, *found])


@pytest.mark.parametrize(
    ("fields", "losses", "measured", "agrees"),
    [
        ({"at_least": 0.2}, [1.3, 1.25, 1.2], "+0.2500 (+0.1258 to +0.3742), 3 pairs", "yes"),
        ({"at_least": 0.3}, [1.3, 1.25, 1.2], "+0.2500 (+0.1258 to +0.3742), 3 pairs", "no"),
        ({"at_most": 0.01}, [1.02, 0.98, 1.0], "+0.0000 (-0.0497 to +0.0497), 3 pairs", "yes"),
        ({"value": True, "at_most": 0.6}, [1.1, 1.1, 1.1], "+1.1000 (+1.1000 to +1.1000), 3 pairs", "no"),
        ({"over": "other", "each_above": 0.01}, [1.6, 1.6, 1.505], "+0.0683 (-0.0679 to +0.2046), 3 pairs", "no"),
        ({"over": "other", "each_above": 0.0}, [1.5, 1.5, 1.5], "+0.0000 (+0.0000 to +0.0000), 3 pairs", "no"),
        ({"of": "other", "share": 0.5}, [1.2, 1.2, 1.2], "-0.0500 (-0.0500 to -0.0500), 3 pairs", "yes"),
        ({"resolved": False}, [1.1, 0.9, 1.0], "+0.0000 (-0.2484 to +0.2484), 3 pairs", "yes"),
        ({"resolved": False}, [1.1, 1.11, 1.1], "+0.1033 (+0.0890 to +0.1177), 3 pairs", "no"),
        ({"resolved": False}, [1.001, 0.999, 1.0], "+0.0000 (-0.0025 to +0.0025), 3 pairs", "no"),
    ],
)
def test_a_statement_beside_what_was_recorded(
    fields: dict[str, object], losses: list[float], measured: str, agrees: str
) -> None:
    summary = recorded({"base": [1.0, 1.0, 1.0], "mine": losses, "other": [1.5, 1.5, 1.5]})
    comparison = {"workload": "w", "expect": [{"number": 5, "recipe": "mine", **fields}]}
    ((name, who, _, told, found, _),) = reproduce.compared(comparison, summary)
    assert (name, who, told.replace("-0.0000", "+0.0000"), found) == ("5 w", "mine", measured, agrees)


@pytest.mark.parametrize(
    ("losses", "outcome", "told"),
    [
        ([1.9, 1.9, 1.2, 1.1, 1.2, 1.2, 1.2, 1.2], "yes", "-0.3000 (-0.4000 to -0.3000), 6 pairs"),
        ([1.0, 1.0, 1.2, 1.1, 1.2, 1.2, 1.2, 1.9], "not resolved", "-0.3000 (-0.4000 to +0.4000), 6 pairs"),
        ([1.0, 1.0, 1.7, 1.7, 1.7, 1.7, 1.7, 1.9], "no", "+0.2000 (+0.2000 to +0.4000), 6 pairs"),
        ([1.0, 1.0, 1.2, 1.1, 1.2, 1.2, 1.2], "not resolved", "-0.3000, 5 pairs"),
    ],
)
def test_a_median_agrees_by_its_whole_interval(losses: list[float], outcome: str, told: str) -> None:
    summary = recorded({"base": [1.0] * len(losses), "mine": losses, "other": [2.0] * len(losses)})
    each = {"number": 5, "recipe": "mine", "share": 0.5, "of": "other", "statistic": "median", "from_seed": 2}
    ((_, _, words, measured, found, _),) = reproduce.compared({"workload": "w", "expect": [each]}, summary)
    assert words == "median of the gap in loss less 0.5 of that of other <= 0"
    assert (measured, found) == (told, outcome)


def test_an_interval_of_a_median_has_it_within_as_often_as_it_says() -> None:
    assert [reproduce.median_interval([float(i) for i in range(n)]) for n in (5, 6, 8, 9, 20)] == [
        None, (0.0, 5.0), (0.0, 7.0), (1.0, 7.0), (5.0, 14.0),
    ]  # fmt: skip


def test_an_outcome_is_told_beside_what_is_documented() -> None:
    summary = recorded({"base": [1.0] * 3, "mine": [1.3] * 3})
    each = {"number": 5, "recipe": "mine", "at_most": 0.1, "outcome": "no"}
    ((*_, found, verdict),) = reproduce.compared({"workload": "w", "expect": [each]}, summary)
    assert (found, verdict) == ("no, as documented", "missed")
    ((*_, found, _),) = reproduce.compared({"workload": "w", "expect": [{**each, "at_most": 0.5}]}, summary)
    assert found == "yes, documented: no"


def test_a_run_that_diverged_agrees_with_nothing() -> None:
    summary = recorded({"base": [1.0], "mine": [1.0]}, status="diverged")
    comparison = {"workload": "w", "expect": [{"number": 5, "recipe": "mine", "at_most": 9.0}]}
    ((*_, told, found, _),) = reproduce.compared(comparison, summary)
    assert (told, found) == ("not measured: a run did not end well", "no")


def test_every_statement_has_words() -> None:
    said = [reproduce.statement(each) for comparison in COMPARISONS.values() for each in comparison["expect"]]
    assert "gap in loss over nvfp4-everywhere > 0.01, each pair" in said
    assert "gap in loss less 0.5 of that of e2m1 <= 0" in said
    assert "not resolved" in said


def test_one_that_trains_nothing_is_named_with_its_test(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert reproduce.main(["--only", "12", "--out", str(tmp_path)]) == 0
    assert "tests/conformance/test_narrow_product.py" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        reproduce.main(["--only", "99"])


@pytest.mark.slow
def test_the_weights_of_16_bits_end_to_end(tmp_path: Path) -> None:
    command = [sys.executable, str(FOLDER / "reproduce.py"), "--only", "3", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("│ yes") == len(COMPARISONS["bf16_weights"]["expect"])
