"""The candidates that are scored where nobody names others."""

from __future__ import annotations

from collections.abc import Collection

from ...specs import LayerPrecision
from .._candidate import KEEP, Candidate

#: One-line casts (input and weight, output's gradient) by name, the widest first, with the format that a device must
#: multiply to gain by it.
_CASTS = (
    ("fp8", ("e4m3[tensor]", "e5m2[tensor]"), "fp8"),
    ("mxfp8", ("mxfp8 rceil", "mxfp8 rceil"), "mxfp8"),
    ("mxfp6", ("mxfp6-e3m2", "mxfp6-e3m2"), "mxfp6"),
    ("nvfp4", ("nvfp4", "nvfp4 sr"), "nvfp4"),
    ("mxfp4", ("mxfp4", "mxfp4"), "mxfp4"),
)


def default_candidates(formats: Collection[str] | None = None) -> tuple[Candidate, ...]:
    """Candidates from wide to narrow; ``"keep"`` is always the first.

    Args:
        formats: that a device multiplies: ``"fp8"``, ``"mxfp8"``, ``"mxfp6"``, ``"nvfp4"``, ``"mxfp4"``; ``None``: any.

    Example:
        >>> [candidate.name for candidate in default_candidates(["fp8", "mxfp8"])]
        ['keep', 'fp8', 'mxfp8']
    """
    made = [
        Candidate(name=name, precision=LayerPrecision.of(input=forward, weight=forward, grad_output=backward))
        for name, (forward, backward), needs in _CASTS
        if formats is None or needs in formats
    ]
    return (Candidate(name=KEEP), *made)
