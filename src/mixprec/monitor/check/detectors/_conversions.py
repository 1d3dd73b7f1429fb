"""Casts that lose more than digits: complex numbers made real, infinities made 8-bit numbers."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from ..._finding import Finding
from .._call import Call, short
from ._detector import Detector


class ConversionDetector(Detector):
    """A complex tensor that is cast to a real dtype: its imaginary part is gone. A fault.

    ``model.bfloat16()`` does it to complex buffers, and ``x.to(weight.dtype)`` in a forward pass.
    """

    operations = frozenset({"_to_copy", "copy_"})

    def see(self, call: Call) -> Iterable[Finding]:
        """A cast."""
        source = call.args[1] if call.name == "copy_" else call.args[0]
        target = call.args[0].dtype if call.name == "copy_" else call.kwargs.get("dtype")
        if not isinstance(source, Tensor) or not source.is_complex() or target is None or target.is_complex:
            return
        yield call.finding(
            "fault",
            "complex cast to real",
            f"a {short(source.dtype)} tensor of shape {tuple(source.shape)} becomes {short(target)}: its imaginary "
            "part is discarded",
            evidence={"from": short(source.dtype), "to": short(target)},
            threshold="no complex tensor in a real dtype",
            remedy="keep complex buffers complex64 (mixprec.convert does), or cast torch.view_as_real(x)",
        )
