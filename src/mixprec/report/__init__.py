"""Records to one self-contained HTML page; needs no torch."""

from ._write import write_report

__all__ = ["write_report"]
