"""Values that leave their dtype, or are about to: forward and backward."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from ..._finding import Finding
from .._call import Call, short
from .._values import NARROW
from ._detector import Detector

#: Share of the largest number from which on a tensor is told: 1/8, three doublings.
HEADROOM = 8.0
#: Share of non-zero operands whose square may be zero.
FLUSHED = 0.5
_POLES = frozenset(
    "log log2 log10 log1p div reciprocal rsqrt sqrt pow div_ log_ sqrt_ acos asin atanh digamma lgamma "
    "linalg_vector_norm norm".split()
)
_MADE = frozenset("full full_like fill fill_ scalar_tensor new_full masked_fill masked_fill_ zeros lift_fresh".split())
_BF16 = 'compute_dtype = "bf16"\n'


class RangeDetector(Detector):
    """What is not finite although its operands are, and fp16 values within a factor of 8 of the largest (65,504).

    - overflow of a 16-bit result: a fault; in the backward pass under a dynamic loss scale a note (its first steps are
      skipped until the scale fits);
    - a logarithm, division or root that is inf or NaN where gradients flow, in any dtype: a fault. Without gradients
      (a degree matrix, a table) it is the author's own;
    - fp16 activations beyond 8,188, gradients likewise under a static scale: a warning;
    - a square in fp16 that is 0 for half of its non-zero operands (a variance of small numbers): a warning.
    """

    operations = None

    def see(self, call: Call) -> Iterable[Finding]:
        """Any result."""
        for _, facts in call.outputs:
            if not facts.is_finite and call.is_finite_before and call.name not in _MADE:
                if call.name in _POLES and facts.dtype not in NARROW:
                    return self._pole(call) if call.needs_grad else ()
                return self._overflow(call)
            if facts.dtype == torch.float16 and not facts.is_mask and facts.amax >= 65504 / HEADROOM:
                return self._near(call)
        return self._squares(call) if call.name in ("pow", "mul") else ()

    def _overflow(self, call: Call) -> Iterator[Finding]:
        facts = next(f for _, f in call.outputs if not f.is_finite)
        limit = torch.finfo(facts.dtype).max
        operands = max((f.amax for _, f in call.inputs), default=0.0)
        evidence = {"nonfinite": facts.nonfinite, "limit": limit, "largest operand": operands}
        kind = "NaN" if facts.has_nan and not facts.has_inf else "inf"
        if call.place.backward:
            yield self._backward(call, kind, short(facts.dtype), evidence)
            return
        if facts.dtype in NARROW and call.name in _POLES and operands < limit / 2:
            yield from self._pole(call)
            return
        yield call.finding(
            "fault",
            "overflow",
            f"{call.name.strip('_')} of finite operands (up to {operands:g}) is {kind} in {short(facts.dtype)}",
            evidence=evidence,
            threshold=f"{short(facts.dtype)} ends at {limit:g}",
            remedy="use recipe 'bf16', which has fp32's range; or scale the activations down before (a norm, a smaller "
            "initial weight), or compute this operation in fp32",
            rule=_BF16 if facts.dtype == torch.float16 else "",
        )

    def _backward(self, call: Call, kind: str, dtype: str, evidence: dict[str, float]) -> Finding:
        is_ordinary = self.setting.is_dynamic and dtype == "fp16"
        scale = self.setting.loss_scale
        told = (
            f"the first steps are skipped, until the dynamic loss scale ({scale:g}) has come down; that is ordinary"
            if is_ordinary
            else f"a finite forward pass has a broken gradient (loss scale {scale:g})"
        )
        smaller = max(scale / 64, 1.0)
        return call.finding(
            "note" if is_ordinary else "fault",
            "gradient overflow",
            f"the gradient of {call.place.operation} is {kind} in {dtype}: {told}",
            evidence={**evidence, "loss scale": scale},
            threshold=f"{dtype} ends at {evidence['limit']:g}",
            remedy=f"nothing; or begin with a smaller scale, e.g. {smaller:g}"
            if is_ordinary
            else "look at the operation where its operand is 0 (a root, a norm, log or where around them: put an eps "
            "inside)"
            if dtype not in ("fp16", "bf16") or scale == 1
            else f"a loss scale of {smaller:g} or less, or a dynamic one",
            rule=_initial(smaller) if dtype == "fp16" and scale > 1 else "",
        )

    def _pole(self, call: Call) -> Iterator[Finding]:
        operands = [f for _, f in call.inputs]
        facts = next(f for _, f in call.outputs if not f.is_finite)
        kind = "NaN" if facts.has_nan and not facts.has_inf else "inf"
        low = min((f.low for f in operands), default=0.0)
        is_flushed = any(f.dtype in NARROW or f.narrowed is not None for f in operands)
        cause = "a value that 16 bits made zero" if is_flushed else "zero or less"
        yield call.finding(
            "fault",
            "logarithm, root or division of zero",
            f"{call.name.strip('_')} of {cause} is {kind}{' in the backward pass' if call.place.backward else ''}",
            evidence={"lowest operand": low, "nonfinite": facts.nonfinite},
            threshold="finite results of finite operands",
            remedy="put an eps where its operand is made (inside the root, in fp32), or clamp the operand before",
        )

    def _near(self, call: Call) -> Iterator[Finding]:
        if call.place.backward and self.setting.is_dynamic:
            return
        amax = max(f.amax for _, f in call.outputs)
        if call.place.backward:
            smaller = _power_below(self.setting.loss_scale * 65504 / HEADROOM / amax)
            remedy, rule = f"a loss scale of {smaller:g}, or a dynamic one", _initial(smaller)
        else:
            remedy, rule = "use recipe 'bf16', or scale the activations down before", _BF16
        yield call.finding(
            "warning",
            "close to fp16's limit",
            f"{call.name.strip('_')} gives values up to {amax:g} in fp16, which ends at 65504",
            evidence={"largest": amax, "limit": 65504.0},
            threshold=f"1/{HEADROOM:g} of the limit ({65504 / HEADROOM:g})",
            remedy=remedy,
            rule=rule,
        )

    def _squares(self, call: Call) -> Iterator[Finding]:
        is_square = call.args[1:2] == (2,) or (call.name == "mul" and call.args[0] is call.args[1])
        if call.place.backward or not is_square or not call.outputs or call.outputs[0][1].dtype != torch.float16:
            return
        with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            x, y = call.args[0].detach(), call.outputs[0][0].detach()
            some = int((x != 0).sum())
            share = float(((x != 0) & (y == 0)).sum()) / max(some, 1)
        if share >= FLUSHED:
            yield call.finding(
                "warning",
                "squares flushed to zero",
                f"{100 * share:.0f} % of the squares of non-zero fp16 values are 0: a variance or norm of them is lost",
                evidence={"share": share, "largest operand": call.inputs[0][1].amax},
                threshold=f"{FLUSHED:g} of the non-zero operands",
                remedy="square in fp32: x.float().pow(2)",
            )


def _initial(scale: float) -> str:
    return f'[loss_scale]\nkind = "dynamic"\ninitial = {scale:.1f}\n'


def _power_below(x: float) -> float:
    """The largest power of two that is not larger."""
    return 2.0 ** torch.tensor(x).log2().floor().item() if x > 0 else 1.0
