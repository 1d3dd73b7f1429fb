from __future__ import annotations

import csv
import io

import pytest

from mixprec.records import (
    BESIDE,
    EvaluationRecord,
    EventRecord,
    RunEndRecord,
    StepRecord,
    Summary,
    Table,
    figures_table,
    result_table,
    summarize,
    table_csv,
    table_latex,
    table_markdown,
)

HOSTILE = r"[a]_{b} & <i>größer</i> $x$ 100% ~^\ |#"


def found(*names: str) -> Summary:
    return summarize(
        record
        for index, name in enumerate(names)
        for seed in (0, 1, 2)
        for record in (
            EvaluationRecord(
                recipe=name,
                seed=seed,
                step=9,
                forward="recipe",
                metrics={"loss": 2.0 + seed + index * (0.020 + 0.003 * seed), "accuracy": 0.5},
            ),
            RunEndRecord(recipe=name, seed=seed, status="done"),
        )
    )


def test_gaps_have_their_intervals():
    table = result_table(found("fp32", "bf16"))
    assert table.headers == ("recipe", "loss", "gap in loss", "accuracy", "gap in accuracy")
    assert table.rows[0] == ("fp32", "3.0000", "–", "0.5000", "–")
    # Mean 0.023, spread 0.003: t(2) = 4.303 times 0.003 / sqrt(3) is 0.00745.
    assert table.rows[1] == ("bf16", "3.0230", "+0.0230 [+0.0155, +0.0305]", "0.5000", "identical")


def test_figures_lose_no_digit():
    summary = found("fp32", "bf16")
    rows = {row[:3]: row[3:] for row in figures_table(summary).rows}
    metric = summary.rows[1].loss
    assert metric is not None
    assert metric.gap.interval is not None
    seeds, value, gap, low, high, resolved = rows["bf16", "loss", "recipe"]
    assert (seeds, resolved) == ("3", "yes")
    assert [float(cell) for cell in (value, gap, low, high)] == [metric.mean, metric.gap.mean, *metric.gap.interval]
    assert rows["fp32", "loss", "recipe"][2:] == ("", "", "", "")


def test_csv_reads_back_whatever_is_in_a_name():
    table = Table(headers=("recipe", "loss"), rows=((f'{HOSTILE},"\nx', "1"),))
    assert list(csv.reader(io.StringIO(table_csv(table)))) == [["recipe", "loss"], [f'{HOSTILE},"\nx', "1"]]


def test_latex_is_escaped():
    text = table_latex(Table(headers=("recipe", "gap"), rows=((HOSTILE + "\nmore", "−1 ± 2"),), notes=("a\nb",)))
    assert (
        r"{[}a{]}\_\{b\} \& \textless{}i\textgreater{}größer\textless{}/i\textgreater{} \$x\$ 100\% "
        r"\textasciitilde{}\textasciicircum{}\textbackslash{} \textbar{}\# more & $-$1 $\pm$ 2 \\"
    ) in text.splitlines()
    assert "% a b" in text.splitlines()


def test_markdown_is_neither_cut_nor_html():
    text = table_markdown(Table(headers=("recipe", "gap"), rows=((HOSTILE, "1"),), notes=("a|b",)))
    row = text.splitlines()[2]
    assert row.startswith(r"| \[a\]\_{b} &amp; &lt;i>größer&lt;/i>")
    assert row.count("|") - row.count(r"\|") == 3
    assert text.endswith("\n\n- a\\|b\n")


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_what_is_there_is_shown(kept: int):
    records = [EvaluationRecord(recipe="a", seed=s, step=1, forward="recipe", metrics={"loss": 1.0}) for s in range(3)]
    summary = summarize(records[:kept])
    for write in (table_csv, table_latex, table_markdown):
        assert write(result_table(summary))
        assert write(figures_table(summary))


def step(recipe: str, seed: int, at: int, seconds: float) -> StepRecord:
    return StepRecord(
        recipe=recipe,
        seed=seed,
        step=at,
        loss=1.0,
        seconds=seconds,
        applied=True,
        grad_norm=None,
        loss_scale=None,
        tokens=None,
    )


def test_times_of_runs_that_others_ran_beside_are_left_out():
    steps = [step(name, seed, at, 2.0 if name == "b" else 1.0) for name in "ab" for seed in (0, 1) for at in range(6)]
    slow = [step("b", 2, at, 50.0) for at in range(6)]
    beside = EventRecord(recipe="b", seed=2, step=0, name=BESIDE, site="", message="")
    row = summarize([*steps, *slow, beside]).rows[1]
    assert (row.step_seconds, row.time_ratio, row.beside) == (2.0, 2.0, 1)


def test_steps_whose_time_is_not_known_are_left_out():
    steps = [step("a", 0, at, float("nan") if at % 2 else 1.0) for at in range(9)]
    assert summarize(steps).rows[0].step_seconds == 1.0
    assert summarize([step("a", 0, at, float("nan")) for at in range(9)]).rows[0].step_seconds is None
