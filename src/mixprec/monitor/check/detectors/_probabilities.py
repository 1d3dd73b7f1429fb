"""Probabilities where a loss should get logits: ``1 - p`` is lost in 16 bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from ..._finding import Finding
from .._call import Call, short
from .._values import NARROW, Facts
from ._detector import Detector

_WHAT = {"sigmoid": "BCEWithLogitsLoss", "_softmax": "log_softmax (or CrossEntropyLoss)"}


class ProbabilityDetector(Detector):
    """``binary_cross_entropy`` of a sigmoid's or softmax's output, and ``log`` of one (an ``NLLLoss`` follows).

    A sigmoid is exactly 1 from 6.3 on in bf16, 8.4 in fp16 and 17 in fp32, where the loss in logits goes on. Told as a
    fault where the probabilities are in 16 bits, as a warning where they are fp32 in a model that computes in 16 bits
    (the logits have 16 bits then) or where some of them are exactly 0 or 1.
    """

    operations = frozenset({"binary_cross_entropy", "log", "log2", "log10", "log1p"})

    def see(self, call: Call) -> Iterable[Finding]:
        """The loss, with the sigmoid that feeds it."""
        facts = call.facts(0)
        if facts is None or call.place.backward:
            return ()
        if call.name == "binary_cross_entropy":
            return self._of_loss(call, facts)
        return self._of_logarithm(call, facts) if facts.probability is not None else ()

    def _of_loss(self, call: Call, facts: Facts) -> Iterator[Finding]:
        saturated = _saturated(call)
        is_narrow = facts.dtype in NARROW or facts.narrowed is not None
        if not is_narrow and call.compute is None and not saturated:
            return
        yield self._finding(call, facts, "fault" if is_narrow else "warning", "binary_cross_entropy", saturated)

    def _of_logarithm(self, call: Call, facts: Facts) -> Iterator[Finding]:
        is_narrow = facts.dtype in NARROW or facts.narrowed is not None
        has_zero = call.name == "log" and facts.low == 0.0 and call.needs_grad
        if is_narrow or has_zero:
            saturated = _saturated(call)
            yield self._finding(call, facts, "fault", f"{call.name} of probabilities", saturated)

    def _finding(self, call: Call, facts: Facts, severity: str, what: str, saturated: float) -> Finding:
        source = facts.probability
        kind = source.operation if source is not None else ""
        fed = f", fed by {source.site}{source.at}," if source is not None else ""
        dtype = facts.narrowed or facts.dtype
        instead = _WHAT.get("_softmax" if kind == "softmax" else "sigmoid", "BCEWithLogitsLoss")
        return call.finding(
            "fault" if severity == "fault" else "warning",
            "probabilities into a loss",
            f"{what}{fed} gets probabilities in {short(dtype)}: near 0 and 1 they saturate, and with them loss and "
            "gradient",
            evidence={"dtype": short(dtype), "share of exact 0 or 1": saturated},
            threshold="probabilities in 16 bits, or from logits of 16 bits, or exactly 0 or 1",
            remedy=f"leave the {kind or 'sigmoid'} out and give the logits to {instead}",
        )


def _saturated(call: Call) -> float:
    """Share of the probabilities that are exactly 0 or 1."""
    x = call.args[0].detach()
    with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        return float(((x == 0) | (x == 1)).double().mean()) if x.numel() else 0.0
