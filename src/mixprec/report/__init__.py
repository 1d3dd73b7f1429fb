"""Records to one self-contained HTML page and its figures as files; needs no torch."""

from ._write import write_pair, write_report
from ._write_figures import write_figures

__all__ = ["write_figures", "write_pair", "write_report"]
