from __future__ import annotations

from typing import Any

import pytest

from mixprec.monitor.export import WandbExporter
from tests.monitor.export.made_records import event, finding, incident, statistics, step


class Run:
    """Has the methods of a W&B run, with their signatures."""

    def __init__(self) -> None:
        self.logged: list[dict[str, Any]] = []
        self.metrics: list[tuple[str, Any]] = []
        self.alerts: list[tuple[str, str, Any]] = []

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        assert step is None, "the user's own steps would be in its way"
        self.logged.append(dict(data))

    def define_metric(
        self,
        name: str,
        step_metric: Any = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        goal: str | None = None,
        overwrite: bool | None = None,
    ) -> None:
        self.metrics.append((name, step_metric))

    def alert(self, title: str, text: str, level: Any = None, wait_duration: Any = None) -> None:
        self.alerts.append((title, text, level))


def test_a_step_and_what_belongs_to_it_go_out_together():
    run = Run()
    exporter = WandbExporter(run)
    for record in (step(4), statistics(), event(), step(5, loss=2.0, applied=False)):
        exporter.take(record)
    assert len(run.logged) == 1, "the second step may get company yet"
    exporter.close()
    exporter.close()
    first, second = run.logged
    assert first["mixprec/step"] == 4
    assert first["mixprec/loss"] == 2.5
    assert first["mixprec/flushed/blocks.0.fc/input/fp16"] == 0.125
    assert first["mixprec/events/skipped"] == 1
    assert (second["mixprec/step"], second["mixprec/loss"], second["mixprec/skipped_steps"]) == (5, 2.0, 1.0)
    assert run.metrics == [("mixprec/step", None), ("mixprec/*", "mixprec/step")]


def test_alerts_are_sent_only_where_asked_for_and_not_for_notes():
    quiet, loud = Run(), Run()
    for run, alerts in ((quiet, False), (loud, True)):
        exporter = WandbExporter(run, alerts=alerts)
        exporter.take(finding(site="fc (input)", remedy="use bf16"))
        exporter.take(finding("probe", severity="note"))
    assert quiet.alerts == []
    assert loud.alerts == [("loss spike", "step 4: fc (input): the loss is 9.1\nuse bf16", "WARN")]


def test_a_second_training_run_is_refused():
    exporter = WandbExporter(Run())
    exporter.take(step())
    with pytest.raises(ValueError, match=r"a record of bf16 seed 3 after those of fp16 seed 3: a W&B run shows one"):
        exporter.take(step(recipe="bf16"))


def test_what_is_no_run_is_refused():
    with pytest.raises(TypeError, match=r"has no log\(\): expected the object that wandb.init\(\) returns"):
        WandbExporter(None)


def test_incidents_are_logged_and_alerted_until_they_are_overcome():
    run = Run()
    exporter = WandbExporter(run, alerts=True)
    for record in (
        step(40),
        incident(),
        incident(),
        step(36),
        incident(outcome="recovered", resolved=60),
        incident(2, outcome="stopped"),
    ):
        exporter.take(record)
    exporter.close()
    assert [logged["mixprec/step"] for logged in run.logged] == [40, 41, 36, 60, 41]
    assert run.logged[1]["mixprec/incidents/rewind"] == 1
    assert (run.logged[1]["mixprec/incidents_open"], run.logged[3]["mixprec/incidents_open"]) == (1, 0)
    assert [(title, level) for title, _, level in run.alerts] == [
        ("incident 1: loss spike", "WARN"),
        ("incident 2: loss spike", "ERROR"),
    ]
