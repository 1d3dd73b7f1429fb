"""A run's numbers for Prometheus to scrape."""

from __future__ import annotations

from typing import Any, Self

from ...records import (
    EvaluationRecord,
    EventRecord,
    FindingRecord,
    IncidentRecord,
    IncidentTally,
    Record,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
)
from ._extra import load_extra
from ._prometheus_metrics import DURATIONS, METRICS, Metric

#: Figures of a tensor and their metric.
_TENSOR = {
    "flushed": "mixprec_flushed_ratio",
    "subnormal": "mixprec_subnormal_ratio",
    "saturated": "mixprec_saturated_ratio",
    "sqnr_db": "mixprec_sqnr_decibels",
    "relative_error": "mixprec_relative_error_ratio",
    "bias": "mixprec_bias_ratio",
    "amax": "mixprec_amax",
    "nonfinite": "mixprec_nonfinite_elements",
}


class PrometheusExporter:
    """Serves a run's numbers at ``http://HOST:PORT/metrics``, from a registry of its own.

    What is served is listed with units in ``docs/monitor/where-to-look.md``. Casts that are not in use are left out,
    so that the number of series is that of the casts that run; beyond ``max_series`` label sets of one metric further
    ones are left out and counted in ``mixprec_series_left_out_total``.

    The endpoint has no password and no encryption: it is bound to this machine unless ``host`` says otherwise.

    Args:
        port: to listen at; 0 takes a free one, told by ``port``.
        host: address to listen at; ``"0.0.0.0"`` lets other machines in.
        max_series: label sets of each metric at most.

    Raises:
        ImportError: prometheus-client is not installed; with what to install.
        OSError: the address cannot be listened at, e.g. the port is taken.
        ValueError: a port or a limit that cannot be.

    Example:
        >>> exporter = PrometheusExporter(port=9464)  # doctest: +SKIP
        >>> print(exporter.url)  # doctest: +SKIP
        http://127.0.0.1:9464/metrics
    """

    def __init__(self, port: int = 0, *, host: str = "127.0.0.1", max_series: int = 2000) -> None:
        if not 0 <= port <= 65535:
            raise ValueError(f"PrometheusExporter: port is {port}: expected 1 to 65535, or 0 for a free one")
        if max_series < 1:
            raise ValueError(f"PrometheusExporter: max_series is {max_series}: expected 1 or more")
        client = load_extra("prometheus_client", extra="prometheus", what="PrometheusExporter")
        self._max_series, self._known = max_series, dict[str, set[tuple[str, ...]]]()
        self._incidents = IncidentTally()
        registry = client.CollectorRegistry()
        self._metrics = {metric.name: _made(client, registry, metric) for metric in METRICS}
        try:
            self._server, self._thread = client.start_http_server(port, host, registry)
        except OSError as error:
            raise OSError(
                error.errno, f"PrometheusExporter cannot listen at {host} port {port} ({error.strerror or error})"
            ) from error
        self.host, self.port = host, int(self._server.server_port)
        self._is_open = True

    @property
    def url(self) -> str:
        """What Prometheus scrapes."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/metrics"

    def take(self, record: Record) -> None:
        """Show one record's numbers from now on."""
        match record:
            case StepRecord():
                self._step(record)
            case EvaluationRecord():
                for name, value in record.metrics.items():
                    self._set("mixprec_evaluation", value, record, record.forward, name)
            case StatisticsRecord() if record.in_use:
                for figure, metric in _TENSOR.items():
                    self._set(metric, getattr(record, figure), record, record.site, record.role, record.cast)
            case UpdateRecord():
                self._set("mixprec_update_ratio", record.ratio, record, record.site)
                self._set("mixprec_update_lost_ratio", record.lost, record, record.site)
            case FindingRecord():
                self._add("mixprec_findings_total", 1, record, record.name, record.severity)
            case EventRecord():
                self._add("mixprec_events_total", 1, record, record.name)
            case IncidentRecord():
                self._incident(record)
            case _:
                pass

    def close(self) -> None:
        """Stop serving and free the port; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self, record: StepRecord) -> None:
        self._set("mixprec_step", record.step, record)
        if record.loss is not None:
            self._set("mixprec_loss", record.loss, record)
        for name, loss in record.losses.items():
            self._set("mixprec_named_loss", loss, record, name)
        if record.grad_norm is not None:
            self._set("mixprec_gradient_norm", record.grad_norm, record)
        if record.loss_scale is not None:
            self._set("mixprec_loss_scale", record.loss_scale, record)
        # Both counters exist from the first step on, so that a rate over them does.
        self._add("mixprec_steps_applied_total", int(record.applied), record)
        self._add("mixprec_steps_skipped_total", int(not record.applied), record)
        if record.tokens is not None:
            self._add("mixprec_tokens_total", record.tokens, record)
        if (duration := self._series("mixprec_step_duration_seconds", record)) is not None:
            duration.observe(record.seconds)

    def _incident(self, record: IncidentRecord) -> None:
        told = self._incidents.take(record)
        if told.is_new:
            self._add("mixprec_incidents_total", 1, record, record.rung, record.trigger)
        if told.is_settled:
            self._add("mixprec_incidents_settled_total", 1, record, record.rung, record.outcome)
        self._set("mixprec_incidents_open", told.open, record)
        self._add("mixprec_incident_lost_steps_total", told.lost_steps, record)
        self._add("mixprec_incident_lost_seconds_total", told.lost_seconds, record)

    def _set(self, metric: str, value: float, record: _OfRun, *labels: str) -> None:
        if (series := self._series(metric, record, *labels)) is not None:
            series.set(value)

    def _add(self, metric: str, count: float, record: _OfRun, *labels: str) -> None:
        if (series := self._series(metric, record, *labels)) is not None:
            series.inc(count)

    def _series(self, metric: str, record: _OfRun, *labels: str) -> Any | None:
        """The series of a label set; ``None``, and counted, where the metric has its fill of them."""
        key = (record.recipe, str(record.seed), *labels)
        known = self._known.setdefault(metric, set())
        if key not in known and len(known) >= self._max_series:
            self._metrics["mixprec_series_left_out_total"].inc()
            return None
        known.add(key)
        return self._metrics[metric].labels(*key)


_OfRun = StepRecord | EvaluationRecord | StatisticsRecord | UpdateRecord | FindingRecord | EventRecord | IncidentRecord


def _made(client: Any, registry: Any, metric: Metric) -> Any:
    kinds = {"gauge": client.Gauge, "counter": client.Counter, "histogram": client.Histogram}
    options = {"buckets": DURATIONS} if metric.kind == "histogram" else {}
    return kinds[metric.kind](metric.name, metric.help, metric.labels, registry=registry, **options)
