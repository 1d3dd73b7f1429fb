"""Angles in 16 bits: rotary and sinusoidal tables that come out wrong."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from ..._finding import Finding
from .._call import Call, short
from .._place import shown
from .._values import NARROW
from ._detector import Detector

#: Error of an angle [rad] from which on a table is told, and from which on it is a fault.
WARN, WRONG = 2.0**-4, 1.0


class TableDetector(Detector):
    """``cos``, ``sin`` or ``polar`` of angles in 16 bits, too large for them, or of which a factor was rounded to 16.

    Half a unit in the last place of the largest angle is its error: 1/16 rad (bf16 from 16 on, fp16 from 128) is a
    warning, 1 rad (256, 2,048) a fault: neighbouring positions get the same row, or a row of another. Positions times
    ``inv_freq`` are that far off where either has passed through 16 bits, whatever dtype their product has.
    """

    operations = frozenset({"cos", "cos_", "sin", "sin_", "polar"})

    def see(self, call: Call) -> Iterable[Finding]:
        """Angles."""
        facts = call.facts(1 if call.name == "polar" else 0)
        if facts is None or call.place.backward or facts.amax == 0:
            return
        is_narrow = facts.dtype in NARROW or facts.narrowed is not None
        dtype = facts.dtype if facts.dtype in NARROW else facts.narrowed or facts.rounded
        if dtype is None:
            return
        error = 2.0 ** math.floor(math.log2(facts.amax)) * torch.finfo(dtype).eps / 2
        if error < WARN:
            return
        told = f" in {short(dtype)}" if is_narrow else f", a factor of which was rounded to {short(dtype)}"
        yield call.finding(
            "fault" if error >= WRONG else "warning",
            "angles in 16 bits",
            f"{shown(call.name)} of angles up to {facts.amax:g}{told}, which are off by up to {error:g} "
            "rad: rows of a rotary or sinusoidal table become equal or wrong",
            evidence={"largest angle": facts.amax, "error [rad]": error, "dtype": short(dtype)},
            threshold=f"{WARN:g} rad (a fault from {WRONG:g} on)",
            remedy="compute the table in fp32 and cast its cosines: keep inv_freq and positions fp32, and let no "
            "autocast region multiply them (torch.autocast(..., enabled=False))",
        )
