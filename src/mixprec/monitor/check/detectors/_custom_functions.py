"""Custom autograd functions that know nothing of autocast."""

from __future__ import annotations

from collections.abc import Iterable

from torch.autograd.function import BackwardCFunction

from ..._finding import Finding
from .._call import Call, short
from ._detector import Detector

_LIBRARIES = ("torch", "mixprec", "transformer_engine", "torchao", "bitsandbytes")


class CustomFunctionDetector(Detector):
    """A ``torch.autograd.Function`` without ``custom_fwd`` whose backward multiplies matrices, in a 16-bit model.

    Under autocast its forward runs in 16 bits and its backward in whatever dtype it saved: a warning. One that only
    changes elements needs nothing.
    """

    operations = frozenset({"mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward", "dot", "mv"})

    def see(self, call: Call) -> Iterable[Finding]:
        """A product in a backward pass."""
        node = call.node
        if not isinstance(node, BackwardCFunction) or call.compute is None or hasattr(node, "_fwd_used_autocast"):
            return
        function = getattr(node, "_forward_cls", type(node))
        if function.__module__.partition(".")[0] in _LIBRARIES:
            return
        yield call.finding(
            "warning",
            "custom function without custom_fwd",
            f"{function.__module__}.{function.__qualname__}: its backward multiplies {short(call.inputs[0][1].dtype)} "
            "operands outside of autocast and of the recipe",
            evidence={"function": function.__qualname__, "operation": call.name},
            threshold="custom_fwd on every function that multiplies under a 16-bit compute dtype",
            remedy="decorate forward and backward with torch.amp.custom_fwd(device_type=...) and torch.amp.custom_bwd, "
            "or call mixprec.functional in them",
        )
