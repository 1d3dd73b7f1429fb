"""What machines exist and what they multiply natively."""

from ._native import native_formats

__all__ = ["native_formats"]
