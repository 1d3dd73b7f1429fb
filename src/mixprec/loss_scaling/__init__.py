"""Loss scaling: none, static, dynamic; small frozen values with explicit state."""

from ._scale import ScaleEvent, ScaleState, after_step, init, parse_loss_scale, scale_text

__all__ = ["ScaleEvent", "ScaleState", "after_step", "init", "parse_loss_scale", "scale_text"]
