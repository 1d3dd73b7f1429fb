"""Recipes for torchao: configs, and the layers that each is for."""

from ._emission import TorchaoEmission, TorchaoSetting
from ._emit import emit_torchao

__all__ = ["TorchaoEmission", "TorchaoSetting", "emit_torchao"]
