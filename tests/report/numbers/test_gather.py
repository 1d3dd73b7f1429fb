from __future__ import annotations

import dataclasses
import math

from mixprec.records import EventRecord, RecipeRecords, StatisticsRecord, group_by_recipe
from mixprec.report.numbers import finding_lines, gather
from mixprec.report.numbers._site_map import site_map
from mixprec.report.numbers._timeline import timeline
from tests.report.monitored_run import ROLES, SAMPLED, SITES, loss_scale, monitored, tensor
from tests.report.run_folder import comparison


def recipes(records=None) -> dict[str, RecipeRecords]:
    return group_by_recipe(monitored() if records is None else records)[1]


def test_a_run_has_its_samples_with_right_figures():
    numbers = gather(recipes())
    assert numbers is not None
    (run,) = numbers.runs
    assert run["name"] == "fp16, seed 0"
    assert run["casts"] == ["as trained", "e4m3[tensor]"]
    assert run["tensors"] == [{"site": site, "role": role} for site in SITES for role in ROLES]
    assert [sample["step"] for sample in run["samples"]] == list(SAMPLED)
    assert [sample["scale"] for sample in run["samples"]][:3] == ["2^16", "2^15", "2^16"]
    expected = tensor(350, "blocks.0.attn.qkv", "grad_output")
    found = run["samples"][-1]["cells"][2]
    cast, flushed, subnormal, saturated, noise, *words = found["figures"][0]
    assert (cast, saturated, noise, words[0]) == ("fp16", 0.0, round(expected.sqnr_db, 1), "17 %")
    assert math.isclose(flushed, expected.flushed, rel_tol=0.01)
    assert math.isclose(subnormal, expected.subnormal, rel_tol=0.01)
    counts = {found["first"] + i: count for i, count in enumerate(found["counts"]) if count}
    assert counts == {int(exponent): count for exponent, count in expected.exponents.items()}
    assert found["bands"][0][0] == "fp16, loss scale 2^17"
    assert found["bands"][0][4] == words[0], "the band's share is what the cast flushed"


def test_what_if_figures_stand_beside_those_in_use():
    numbers = gather(recipes())
    assert numbers is not None
    cell = numbers.runs[0]["samples"][0]["cells"][SITES.index("blocks.3.mlp.fc2") * 3]
    assert [figures[0] for figures in cell["figures"]] == ["fp16", "e4m3[tensor]"]
    assert [figures[3] for figures in cell["figures"]] == [0.0, 0.02]


def test_the_static_table_is_the_last_sample_as_trained():
    numbers = gather(recipes())
    assert numbers is not None
    assert numbers.step == 350
    assert [(row.site, row.role) for row in numbers.rows] == [(site, role) for site in SITES for role in ROLES]
    assert {row.cast for row in numbers.rows} == {"fp16"}
    assert (numbers.rows[2].flushed, numbers.rows[2].elements) == ("17 %", "70,000")


def test_of_many_samples_the_first_last_and_worst_are_kept():
    def many():
        for step in range(500):
            for site in SITES[:4]:
                worst = {137: {"flushed": 0.9}, 251: {"saturated": 0.3}, 333: {"sqnr_db": 1.0}}.get(step, {})
                plain = {"flushed": 0.1, "saturated": 0.0, "sqnr_db": 40.0}
                yield tensor(step, site, "input", **{**plain, **worst})

    numbers = gather(recipes(many()))
    assert numbers is not None
    steps = [sample["step"] for sample in numbers.runs[0]["samples"]]
    assert len(steps) == 12
    assert {0, 499, 137, 251, 333} <= set(steps)
    assert steps == sorted(steps)
    assert numbers.runs[0]["of"] == 500


def test_of_two_casts_of_one_tensor_the_noisier_is_shown():
    records = [
        tensor(0, "head", "input", cast=cast, sqnr_db=noise) for cast, noise in (("a", 30.0), ("b", 20.0), ("c", 25.0))
    ]
    numbers = gather(recipes(records))
    assert numbers is not None
    assert [row.cast for row in numbers.rows] == ["b"]


def test_figures_that_are_not_finite_are_json():
    import json

    records = [
        tensor(0, "head", "input", sqnr_db=math.inf),
        tensor(0, "head", "weight", sqnr_db=math.nan, exponents={}),
    ]
    numbers = gather(recipes(records))
    assert numbers is not None
    json.dumps(numbers.runs, allow_nan=False)
    exact, zeros = numbers.runs[0]["samples"][0]["cells"]
    assert (exact["figures"][0][4], exact["figures"][0][8]) == ("inf", "exact")
    assert (zeros["figures"][0][4], zeros["counts"], zeros["bands"]) == (None, [], [])


def test_nothing_recorded_is_no_section():
    assert gather(recipes(comparison(seeds=1, steps=8))) is None


def test_repeated_blocks_stand_side_by_side():
    tensors = [(f"layer{i}.{j}.conv", role) for i in (1, 2) for j in (0, 1) for role in ("weight", "input")]
    first, second, single = site_map([*tensors, ("fc", "weight"), ("conv1", "input")])
    assert (first["name"], second["name"], single["name"]) == ("layer1.*", "layer2.*", "")
    assert first["columns"] == ["0", "1"]
    assert first["rows"] == [
        {"label": "conv", "role": "input", "cells": [1, 3]},
        {"label": "conv", "role": "weight", "cells": [0, 2]},
    ]
    assert single["columns"] == ["input", "weight"]
    assert single["rows"] == [
        {"label": "fc", "role": "", "cells": [None, 8]},
        {"label": "conv1", "role": "", "cells": [9, None]},
    ]


def test_the_gradient_of_a_parameter_stands_with_its_module():
    tensors = [("h.0.fc", "weight"), ("h.0.fc.weight", "gradient"), ("h.0.fc.bias", "gradient"), ("scale", "gradient")]
    table, single = site_map(tensors)
    assert [(row["label"], row["role"]) for row in table["rows"]] == [
        ("fc", "weight"),
        ("fc", "bias gradient"),
        ("fc", "weight gradient"),
    ]
    assert (single["columns"], single["rows"][0]["label"]) == (["gradient"], "scale")


def test_a_finding_that_is_an_event_too_is_one_mark():
    own = recipes()["fp16"]
    spike = own.findings[0]
    event = EventRecord(recipe="fp16", seed=0, step=spike.step, name=spike.name, site="", message=spike.message)
    told = timeline({}, [event], own.findings)
    assert told is not None
    assert [(row["name"], row["kind"]) for row in told["rows"]] == [("loss spike", "warning"), ("flushed", "fault")]


def test_columns_are_numbers_and_not_texts():
    (table,) = site_map([(f"h.{i}.fc", "input") for i in (10, 2, 0)])
    assert table["columns"] == ["0", "2", "10"]
    assert table["rows"][0]["cells"] == [2, 1, 0]


def test_the_time_axis_has_the_scale_and_the_marks():
    own = recipes()["fp16"]
    told = timeline(own.steps[0], own.events, own.findings)
    assert told is not None
    scale = dict(zip(told["scale"]["x"], told["scale"]["y"], strict=True))
    assert scale == {step: loss_scale(step) for step in (0, 19, 20, 59, 60, 259, 260, 399)}
    assert [(row["name"], row["kind"], row["x"]) for row in told["rows"]] == [
        ("loss spike", "warning", [210]),
        ("flushed", "fault", [350]),
        ("skipped", "event", [20, 21, 300]),
    ]
    assert told["rows"][1]["text"] == ["blocks.0.attn.qkv (grad_output): 51 % of the non-zero elements become zero"]
    assert timeline({}, [], []) is None


def test_marks_are_bounded():
    events = [
        EventRecord(recipe="a", seed=0, step=i, name=f"kind {i % 20}", site="", message="x") for i in range(20_000)
    ]
    told = timeline({}, events, [])
    assert told is not None
    assert len(told["rows"]) == 8
    assert {len(row["x"]) for row in told["rows"]} == {400}


def test_findings_are_grouped_and_the_gravest_come_first():
    own = recipes()["fp16"]
    again = dataclasses.replace(own.findings[0], step=390)
    own.findings.append(again)
    fault, warning = finding_lines({"fp16": own})
    assert (fault.severity, fault.name, fault.site, fault.times, fault.steps) == (
        "fault",
        "flushed",
        "blocks.0.attn.qkv (grad_output)",
        1,
        "350",
    )
    assert (warning.times, warning.steps, warning.evidence) == (2, "210 to 390", "loss 3.91, median 1.98")


def test_the_made_run_is_whole():
    samples = [record for record in monitored() if isinstance(record, StatisticsRecord)]
    assert len(samples) == 2 * len(SAMPLED) * len(SITES) * len(ROLES)
