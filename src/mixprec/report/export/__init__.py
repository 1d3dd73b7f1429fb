"""The figures of a page as files: PNG for a paper, CSV for a spreadsheet, and all numbers as JSON."""

from ._csv import chart_csv
from ._png import chart_png
from ._write_figures import write_files

__all__ = ["chart_csv", "chart_png", "write_files"]
