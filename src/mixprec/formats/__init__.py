"""What numbers exist: exact scalar encode, decode and round."""

from ._format import Format

__all__ = ["Format"]
