"""Infinities that a saturating cast or a clamp makes finite: nobody sees them any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..._finding import Finding
from .._call import Call, short
from .._place import shown
from .._values import measured
from ._detector import Detector


class LaunderingDetector(Detector):
    """A NaN or +inf that goes into a clamp, ``nan_to_num`` or a saturating cast and comes out as a number. A fault.

    A ``-inf`` alone is a mask and is none, nor is what no gradient flows through (a degree matrix). What made the
    infinity is told by itself.
    """

    operations = None
    _NAMES = frozenset(
        [
            "clamp",
            "clamp_",
            "clamp_min",
            "clamp_max",
            "clamp_max_",
            "nan_to_num",
            "nan_to_num_",
            "hardtanh",
            "hardtanh_",
        ]
    )

    def see(self, call: Call) -> Iterable[Finding]:
        """Whatever saturates."""
        is_cast = call.library == "mixprec"
        if not is_cast and (call.name not in self._NAMES or not call.needs_grad):
            return ()
        suspect = [t for t, f in call.inputs if f.has_nan or f.has_inf or (is_cast and not f.is_finite)]
        if not suspect or not call.outputs or not all(f.is_finite for _, f in call.outputs):
            return ()
        # Measured anew: the memory of workspaces is written to by kernels that are no operators.
        hidden = measured(suspect[0])
        if hidden.is_finite:
            return ()
        return self._told(call, hidden.nonfinite, is_cast)

    def _told(self, call: Call, count: int, is_cast: bool) -> Iterator[Finding]:
        what = "a saturating cast" if is_cast else shown(call.name)
        rule = f'[[rules]]\nmatch = "{call.place.path}"\nprecision = "compute"\n' if is_cast else ""
        yield call.finding(
            "fault",
            "infinity made finite",
            f"{what} gets {count} elements that are inf or NaN and gives numbers: training goes on with wrong values "
            "and no step is skipped",
            evidence={"nonfinite": count, "dtype": short(call.inputs[0][1].dtype)},
            threshold="no NaN and no +inf into what saturates",
            remedy="mend what made them (told above or below); until then leave this layer in the compute dtype, where "
            "they show"
            if rule
            else "mend what made them; take the clamp away while looking for it",
            rule=rule,
        )
