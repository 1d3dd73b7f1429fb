"""Recipes and plans for the engines that people already run, against their documented interfaces."""

from .torchao import TorchaoEmission, TorchaoSetting, emit_torchao
from .transformer_engine import TransformerEngineEmission, TransformerEngineSetting, emit_transformer_engine

__all__ = [
    "TorchaoEmission",
    "TorchaoSetting",
    "TransformerEngineEmission",
    "TransformerEngineSetting",
    "emit_torchao",
    "emit_transformer_engine",
]
