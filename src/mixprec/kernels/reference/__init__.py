"""The contract in torch operations, written to be read; the truth for tensors on every device."""

from ._backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
