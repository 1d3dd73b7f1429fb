"""Records on their way to where people look: files, TensorBoard, Prometheus, Weights & Biases."""

from ._exporter import Exporter
from ._exporters import Exporters
from ._json_lines import JsonLinesExporter
from ._prometheus import PrometheusExporter
from ._tensorboard import TensorBoardExporter
from ._wandb import WandbExporter

__all__ = [
    "Exporter",
    "Exporters",
    "JsonLinesExporter",
    "PrometheusExporter",
    "TensorBoardExporter",
    "WandbExporter",
]
