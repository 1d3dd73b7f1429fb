"""Small constants that a 16-bit tensor does not hold: an eps that becomes 0."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ..._finding import Finding
from .._call import Call, elsewhere, short
from .._place import shown
from .._values import NARROW
from ._detector import Detector

_FILLS = frozenset(["scalar_tensor", "full", "full_like", "new_full", "fill_", "masked_fill", "masked_fill_", "where"])
_USES = frozenset(["add", "add_", "sub", "sub_", "clamp", "clamp_", "clamp_min", "clamp_min_", "maximum"])


class ConstantDetector(Detector):
    """An ``eps`` that is added to a 16-bit tensor, that it is clamped to or filled with, and that is 0 in its dtype.

    In fp16 all below 2^-25 (3e-8) is: ``x + 1e-8``, ``normalize(eps=1e-12)``, ``where(x == 0, 1e-8, x)``. A fault where
    the tensor has zeros, which a logarithm, root or division meets next; else a warning; a note where the recipe
    computes in fp32 here.
    """

    operations = _FILLS | _USES

    def see(self, call: Call) -> Iterable[Finding]:
        """A sum, a clamp or a fill with a number, or with a tensor of one number."""
        facts = call.result[1] if call.name in _FILLS and call.result else call.facts(0)
        if facts is None or call.place.backward:
            return
        dtype = facts.dtype if facts.dtype in NARROW else facts.kept
        # A second number of add and sub is alpha, of clamp the upper bound.
        numbers = call.inputs if call.name == "where" else call.inputs[1:]
        single = [f.low for t, f in numbers if t.dim() == 0 and not t.requires_grad]
        eps = next((n for n in (*call.numbers, *single) if 0 < abs(n) < 1), None)
        if dtype is None or eps is None or float(torch.tensor(eps, dtype=dtype)) != 0:
            return
        is_lost, has_zeros = facts.dtype in NARROW, facts.low <= 0 <= facts.high and call.name in _USES
        remedy = f"compute in fp32 (x.float() with {eps:g}), or take an eps that {short(dtype)} holds (1e-4 to 1e-6)"
        told = "is 0 there" if is_lost else "would be 0 there; the recipe computes in fp32 here"
        yield call.finding(
            "note" if not is_lost else "fault" if has_zeros else "warning",
            "constant that vanishes",
            f"{shown(call.name)} of a {short(dtype)} tensor and {eps:g}, which {told}",
            evidence={"constant": eps, "smallest": torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps},
            threshold=f"{short(dtype)} rounds all below half its smallest number to 0",
            remedy=remedy if is_lost else elsewhere(remedy),
        )
