"""Small constants that a 16-bit tensor does not hold: an eps that becomes 0."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..._finding import Finding
from .._call import Call, short
from .._place import shown
from .._values import NARROW
from ._detector import Detector


class ConstantDetector(Detector):
    """An ``eps`` that is added to a 16-bit tensor, or that it is clamped to, and that is 0 in its dtype.

    In fp16 all below 2^-25 (3e-8) is: ``x + 1e-8``, ``normalize(eps=1e-12)``. A fault where the tensor has zeros, which
    a logarithm, root or division meets next; else a warning; a note where the recipe computes in fp32 here.
    """

    operations = frozenset({"add", "add_", "sub", "sub_", "clamp", "clamp_", "clamp_min", "clamp_min_", "maximum"})

    def see(self, call: Call) -> Iterable[Finding]:
        """A sum or a clamp with a number."""
        facts = call.facts(0)
        if facts is None or call.place.backward:
            return
        dtype = facts.dtype if facts.dtype in NARROW else facts.widened
        # A second number of add and sub is alpha, of clamp the upper bound.
        eps = next((n for n in call.numbers if 0 < abs(n) < 1), None)
        if dtype is None or eps is None or float(torch.tensor(eps, dtype=dtype)) != 0:
            return
        is_lost, has_zeros = facts.dtype in NARROW, facts.low <= 0 <= facts.high
        told = "is 0 there" if is_lost else "would be 0 there; the recipe computes in fp32 here"
        yield call.finding(
            "note" if not is_lost else "fault" if has_zeros else "warning",
            "constant that vanishes",
            f"{shown(call.name)} of a {short(dtype)} tensor and {eps:g}, which {told}",
            evidence={"constant": eps, "smallest": torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps},
            threshold=f"{short(dtype)} rounds all below half its smallest number to 0",
            remedy=f"compute in fp32 (x.float() + {eps:g}), or take an eps that {short(dtype)} holds (1e-4 to 1e-6)",
        )
