"""What formats do to a run's tensors, gathered for the page: map of sites, exponents over bands, the time axis."""

from ._bands import Band, bands
from ._findings import FindingLine, finding_lines
from ._gather import Numbers, TensorRow, gather

__all__ = ["Band", "FindingLine", "Numbers", "TensorRow", "bands", "finding_lines", "gather"]
