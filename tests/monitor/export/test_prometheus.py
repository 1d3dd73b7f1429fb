from __future__ import annotations

import math
import re
import socket
import threading
import urllib.request
from pathlib import Path

import pytest

from mixprec.monitor.export import Exporter, PrometheusExporter
from mixprec.records import EvaluationRecord
from tests.monitor.export.made_records import event, finding, incident, statistics, step, update

pytest.importorskip("prometheus_client", reason='prometheus-client is not installed: pip install "mixprec[prometheus]"')

DOCUMENT = Path(__file__).parents[3] / "docs" / "monitor" / "where-to-look.md"


def scraped(exporter: PrometheusExporter) -> dict[str, float]:
    """What is served over HTTP: value by name and labels."""
    with urllib.request.urlopen(exporter.url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_a_run_is_scraped_with_right_values():
    with PrometheusExporter() as exporter:
        assert isinstance(exporter, Exporter)
        records = [step(0), step(1, loss=math.nan, applied=False, loss_scale=512.0, grad_norm=math.inf), statistics()]
        evaluation = EvaluationRecord(recipe="fp16", seed=3, step=2, forward="fp32", metrics={"loss/code": 2.25})
        what_if = statistics(cast="e4m3[tensor]", in_use=False)
        for record in [*records, what_if, update(), finding(), finding(), finding("flushed"), event(), evaluation]:
            exporter.take(record)
        found = scraped(exporter)
    run, tensor = 'recipe="fp16",seed="3"', 'cast="fp16",recipe="fp16",role="input",seed="3",site="blocks.0.fc"'
    assert math.isnan(found.pop(f"mixprec_loss{{{run}}}"))
    assert found[f"mixprec_gradient_norm{{{run}}}"] == math.inf
    assert found[f"mixprec_loss_scale{{{run}}}"] == 512.0
    assert found[f"mixprec_step{{{run}}}"] == 1
    assert found[f"mixprec_steps_applied_total{{{run}}}"] == 1
    assert found[f"mixprec_steps_skipped_total{{{run}}}"] == 1
    assert found[f"mixprec_tokens_total{{{run}}}"] == 128
    assert found[f"mixprec_step_duration_seconds_count{{{run}}}"] == 2
    assert found[f"mixprec_step_duration_seconds_sum{{{run}}}"] == pytest.approx(0.4)
    assert found[f'mixprec_step_duration_seconds_bucket{{le="0.3",{run}}}'] == 2
    assert found[f"mixprec_flushed_ratio{{{tensor}}}"] == 0.125
    assert found[f"mixprec_saturated_ratio{{{tensor}}}"] == 0.03125
    assert found[f"mixprec_sqnr_decibels{{{tensor}}}"] == 60.0
    assert found[f"mixprec_bias_ratio{{{tensor}}}"] == -0.0005
    assert found[f"mixprec_nonfinite_elements{{{tensor}}}"] == 2
    assert found[f'mixprec_update_lost_ratio{{{run},site="blocks.0.fc.weight"}}'] == 0.4
    assert found[f'mixprec_findings_total{{name="loss spike",{run},severity="warning"}}'] == 2
    assert found[f'mixprec_events_total{{name="skipped",{run}}}'] == 1
    assert found[f'mixprec_evaluation{{forward="fp32",metric="loss/code",{run}}}'] == 2.25
    assert not [name for name in found if "e4m3" in name], "what is not in use is not exported"


def test_it_listens_on_this_machine_only_and_frees_its_port():
    threads = threading.active_count()
    exporter = PrometheusExporter()
    address, port = exporter._server.socket.getsockname()[:2]
    assert (address, port) == ("127.0.0.1", exporter.port)
    with pytest.raises(OSError, match=rf"cannot listen at 127.0.0.1 port {port}"):
        PrometheusExporter(port=port)
    exporter.close()
    exporter.close()
    assert threading.active_count() == threads
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))


def test_two_exporters_share_nothing():
    with PrometheusExporter() as first, PrometheusExporter() as second:
        first.take(step())
        assert 'mixprec_loss{recipe="fp16",seed="3"}' in scraped(first)
        assert 'mixprec_loss{recipe="fp16",seed="3"}' not in scraped(second)


def test_series_are_bounded_and_what_is_left_out_is_counted():
    with PrometheusExporter(max_series=3) as exporter:
        for i in range(10):
            exporter.take(statistics(f"blocks.{i}.fc"))
        exporter.take(statistics("blocks.0.fc", flushed=0.75))
        found = scraped(exporter)
    flushed = {name: value for name, value in found.items() if name.startswith("mixprec_flushed_ratio{")}
    assert len(flushed) == 3
    assert max(flushed.values()) == 0.75, "those that are known go on"
    assert found["mixprec_series_left_out_total"] == 8 * 7, "eight figures of seven tensors"


@pytest.mark.parametrize(
    ("options", "told"), [({"port": 70000}, "port is 70000"), ({"max_series": 0}, "max_series is 0")]
)
def test_what_cannot_be_is_refused(options, told: str):
    with pytest.raises(ValueError, match=told):
        PrometheusExporter(**options)


def test_every_metric_is_documented_with_its_labels():
    rows = re.findall(r"^\| `(mixprec_\w+)` \| (\w+) \| ([^|]*) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    from mixprec.monitor.export._prometheus_metrics import METRICS

    assert documented == {metric.name: (metric.kind, set(metric.labels)) for metric in METRICS}


def test_names_follow_the_practice():
    from mixprec.monitor.export._prometheus_metrics import METRICS

    for metric in METRICS:
        assert metric.name.endswith("_total") == (metric.kind == "counter"), metric.name
        assert not re.search(r"percent|_ms\b|_db\b", metric.name), "base units"


def test_each_of_several_losses_is_scraped():
    with PrometheusExporter() as exporter:
        for record in (step(0, loss=0.5, losses={"d": 0.5}), step(1, loss=3.0, losses={"g": 3.0})):
            exporter.take(record)
        found = scraped(exporter)
    assert found['mixprec_named_loss{loss="d",recipe="fp16",seed="3"}'] == 0.5
    assert found['mixprec_named_loss{loss="g",recipe="fp16",seed="3"}'] == 3.0


def test_each_incident_counts_once_however_often_it_is_written():
    with PrometheusExporter() as exporter:
        exporter.take(incident(1, lost_steps=5, lost_seconds=0.5))
        exporter.take(incident(2, rung="stop"))
        exporter.take(incident(1, lost_steps=5, lost_seconds=0.5))
        opened = scraped(exporter)
        exporter.take(incident(1, lost_steps=7, lost_seconds=0.75, outcome="recovered", resolved=60))
        exporter.take(incident(1, lost_steps=7, lost_seconds=0.75, outcome="recovered", resolved=60))
        exporter.take(incident(2, rung="stop", outcome="stopped"))
        exporter.take(incident(1, seed=4, rung="skip", lost_steps=1, outcome="recovered", resolved=60))
        found = scraped(exporter)
    run = 'recipe="fp16"'
    assert opened[f'mixprec_incidents_open{{{run},seed="3"}}'] == 2
    assert found[f'mixprec_incidents_open{{{run},seed="3"}}'] == 0
    assert found[f'mixprec_incidents_total{{{run},rung="rewind",seed="3",trigger="loss spike"}}'] == 1
    assert found[f'mixprec_incidents_total{{{run},rung="stop",seed="3",trigger="loss spike"}}'] == 1
    assert found[f'mixprec_incidents_total{{{run},rung="skip",seed="4",trigger="loss spike"}}'] == 1
    assert found[f'mixprec_incidents_settled_total{{outcome="recovered",{run},rung="rewind",seed="3"}}'] == 1
    assert found[f'mixprec_incidents_settled_total{{outcome="stopped",{run},rung="stop",seed="3"}}'] == 1
    assert found[f'mixprec_incident_lost_steps_total{{{run},seed="3"}}'] == 7
    assert found[f'mixprec_incident_lost_seconds_total{{{run},seed="3"}}'] == 0.75
    assert found[f'mixprec_incident_lost_steps_total{{{run},seed="4"}}'] == 1
