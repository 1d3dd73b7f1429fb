"""Statistics of sampled steps: operands before their casts, plain modules' tensors, gradients, updates."""

from ._sampler import Sampled, Sampler

__all__ = ["Sampled", "Sampler"]
