"""Doors for loops that were written for other interfaces: ``torch.amp``, ``torch.cuda.amp`` and ``apex.amp``.

One changed import, and the loop runs the 16-bit recipes:

- ``from torch.amp import autocast, GradScaler``: ``from mixprec.compat.torch_amp import autocast, GradScaler``
- ``from torch.cuda.amp import autocast, GradScaler``: ``from mixprec.compat.torch_cuda_amp import ...``
- ``from apex import amp``: ``from mixprec.compat import apex_amp as amp``
"""

from . import apex_amp, torch_amp, torch_cuda_amp

__all__ = ["apex_amp", "torch_amp", "torch_cuda_amp"]
