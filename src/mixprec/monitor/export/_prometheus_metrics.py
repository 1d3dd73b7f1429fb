"""The names, kinds and units of what Prometheus reads: one table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RUN = ("recipe", "seed")
TENSOR = (*RUN, "site", "role", "cast")
PARAMETER = (*RUN, "site")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric, named by Prometheus' practice: a prefix, base units, ``_total`` for what only grows.

    Attributes:
        name: as Prometheus reads it.
        kind: gauge, counter or histogram.
        labels: names of its labels.
        help: one line.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    help: str


METRICS = (
    Metric(name="mixprec_step", kind="gauge", labels=RUN, help="Applied steps before the last step told."),
    Metric(name="mixprec_loss", kind="gauge", labels=RUN, help="Training loss of the last step, unscaled."),
    Metric(
        name="mixprec_named_loss",
        kind="gauge",
        labels=(*RUN, "loss"),
        help="The same of each loss, where a run has several.",
    ),
    Metric(
        name="mixprec_gradient_norm",
        kind="gauge",
        labels=RUN,
        help="2-norm of all gradients of the last step, unscaled, before clipping.",
    ),
    Metric(name="mixprec_loss_scale", kind="gauge", labels=RUN, help="What the last step's loss was multiplied by."),
    Metric(name="mixprec_steps_applied_total", kind="counter", labels=RUN, help="Steps that changed the weights."),
    Metric(name="mixprec_steps_skipped_total", kind="counter", labels=RUN, help="Steps that were skipped."),
    Metric(name="mixprec_step_duration_seconds", kind="histogram", labels=RUN, help="Wall time of a step, all of it."),
    Metric(name="mixprec_tokens_total", kind="counter", labels=RUN, help="Tokens or samples of the steps told."),
    Metric(
        name="mixprec_evaluation",
        kind="gauge",
        labels=(*RUN, "forward", "metric"),
        help="Last value of a quality metric, in the recipe's forward pass or in fp32.",
    ),
    Metric(
        name="mixprec_flushed_ratio", kind="gauge", labels=TENSOR, help="Share of non-zero elements that became zero."
    ),
    Metric(
        name="mixprec_subnormal_ratio",
        kind="gauge",
        labels=TENSOR,
        help="Share of non-zero elements that became a subnormal number of the format.",
    ),
    Metric(
        name="mixprec_saturated_ratio",
        kind="gauge",
        labels=TENSOR,
        help="Share of elements beyond the format's range under their scale.",
    ),
    Metric(
        name="mixprec_sqnr_decibels",
        kind="gauge",
        labels=TENSOR,
        help="Mean square over mean squared rounding error; +Inf where nothing changed.",
    ),
    Metric(
        name="mixprec_relative_error_ratio",
        kind="gauge",
        labels=TENSOR,
        help="Sum of the errors' magnitudes over the sum of the magnitudes.",
    ),
    Metric(
        name="mixprec_bias_ratio",
        kind="gauge",
        labels=TENSOR,
        help="Sum of the errors in the elements' direction over the sum of the magnitudes.",
    ),
    Metric(name="mixprec_amax", kind="gauge", labels=TENSOR, help="Largest finite magnitude before the cast."),
    Metric(name="mixprec_nonfinite_elements", kind="gauge", labels=TENSOR, help="Elements that are infinite or NaN."),
    Metric(
        name="mixprec_update_ratio",
        kind="gauge",
        labels=PARAMETER,
        help="2-norm of the last sampled update over that of the weight.",
    ),
    Metric(
        name="mixprec_update_lost_ratio",
        kind="gauge",
        labels=PARAMETER,
        help="Share of a parameter's elements whose update rounding lost.",
    ),
    Metric(
        name="mixprec_findings_total",
        kind="counter",
        labels=(*RUN, "name", "severity"),
        help="Findings of alarms, locator and checks.",
    ),
    Metric(name="mixprec_events_total", kind="counter", labels=(*RUN, "name"), help="Events of the run."),
    Metric(
        name="mixprec_incidents_total",
        kind="counter",
        labels=(*RUN, "rung", "trigger"),
        help="Incidents of a guard, by what it did and saw; each counts once, when it is seen.",
    ),
    Metric(
        name="mixprec_incidents_settled_total",
        kind="counter",
        labels=(*RUN, "rung", "outcome"),
        help="Incidents whose outcome is known, by it.",
    ),
    Metric(name="mixprec_incidents_open", kind="gauge", labels=RUN, help="Incidents whose outcome is not known yet."),
    Metric(
        name="mixprec_incident_lost_steps_total",
        kind="counter",
        labels=RUN,
        help="Steps that incidents have cost: given up by going back, or skipped.",
    ),
    Metric(
        name="mixprec_incident_lost_seconds_total",
        kind="counter",
        labels=RUN,
        help="Seconds that incidents have cost: the way back and the steps given up.",
    ),
    Metric(
        name="mixprec_series_left_out_total",
        kind="counter",
        labels=(),
        help="Values that were not exported because their metric had its limit of series.",
    ),
)

#: Upper bounds of the buckets of a step's duration [s].
DURATIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
