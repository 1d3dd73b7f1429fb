"""Records on their way to where people look: files, TensorBoard, Prometheus, Weights & Biases, hooks."""

from ._export_watch import ExportWatch
from ._exporter import Exporter
from ._exporters import Exporters, check_exporters
from ._incident_command import IncidentCommand
from ._incident_webhook import IncidentWebhook
from ._json_lines import JsonLinesExporter
from ._prometheus import PrometheusExporter
from ._tensorboard import TensorBoardExporter
from ._wandb import WandbExporter

__all__ = [
    "ExportWatch",
    "Exporter",
    "Exporters",
    "IncidentCommand",
    "IncidentWebhook",
    "JsonLinesExporter",
    "PrometheusExporter",
    "TensorBoardExporter",
    "WandbExporter",
    "check_exporters",
]
