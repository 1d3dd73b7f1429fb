"""The page about incidents names everything that there is of them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

from mixprec.monitor.export import _prometheus_metrics as prometheus
from mixprec.records import IncidentOutcome, IncidentRecord, Rung

PAGE = (Path(__file__).parents[2] / "docs" / "incidents.md").read_text(encoding="utf-8")


def test_every_field_rung_and_outcome_is_told():
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {field.name for field in fields(IncidentRecord)} <= named
    assert {*get_args(Rung), *get_args(IncidentOutcome)} <= named


def test_every_metric_is_told():
    metrics = {metric.name for metric in prometheus.METRICS if "incident" in metric.name}
    assert metrics == set(re.findall(r"`(mixprec_incident\w+)`", PAGE))
