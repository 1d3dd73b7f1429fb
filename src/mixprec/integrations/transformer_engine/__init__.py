"""Recipes for Transformer Engine: quantizers, and the layers that each is for."""

from ._emission import TransformerEngineEmission, TransformerEngineSetting
from ._emit import emit_transformer_engine

__all__ = ["TransformerEngineEmission", "TransformerEngineSetting", "emit_transformer_engine"]
