"""The signatures of ``torch.cuda.amp``: those of ``mixprec.compat.torch_amp`` without the device."""

from ._signatures import GradScaler, autocast, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
