"""What watches a run: sampling, the first bad tensor, exporters."""

from ._updates import UpdateFinding, UpdateWatch

__all__ = ["UpdateFinding", "UpdateWatch"]
