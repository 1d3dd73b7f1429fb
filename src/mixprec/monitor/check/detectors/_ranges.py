"""Values that leave their dtype, or are about to: forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

import torch

from ..._finding import Finding
from .._call import Call, short
from .._place import shown
from .._provenance import PARTS, WHOLE_VIEWS
from .._setting import Setting
from .._values import NARROW, Facts
from ._detector import Detector, Step

#: Share of the largest number from which on a tensor is told: 1/8, three doublings.
HEADROOM = 8.0
#: Share of non-zero operands whose square may be zero.
FLUSHED = 0.5
# Where an operand makes an operation infinite or undefined, by the operation.
_POLES: Mapping[tuple[str, ...], Callable[[float, float], bool]] = MappingProxyType(
    {
        ("reciprocal", "digamma", "lgamma"): lambda low, high: low <= 0 <= high,
        ("log", "log2", "log10", "rsqrt"): lambda low, _: low <= 0,
        ("log1p",): lambda low, _: low <= -1,
        ("sqrt",): lambda low, _: low < 0,
        ("acos", "asin", "atanh"): lambda low, high: low <= -1 or high >= 1,
    }
)
# What makes no values of its own.
_MADE = (
    WHOLE_VIEWS
    | PARTS
    | frozenset(["full", "full_like", "fill", "fill_", "scalar_tensor", "new_full", "masked_fill", "masked_fill_"])
)
_BF16 = 'compute_dtype = "bf16"\n'


class RangeDetector(Detector):
    """What is not finite although its operands are, and fp16 values within a factor of 8 of the largest (65,504).

    - overflow of a 16-bit result: a fault; in the backward pass under a dynamic loss scale a note (its first steps are
      skipped until the scale fits);
    - a logarithm, division or root that is inf or NaN where gradients flow, in any dtype, if loss or gradients are not
      finite in the end: a fault. Without gradients (a degree matrix, a table) it is the author's own;
    - fp16 activations beyond 8,188, gradients likewise under a static scale: a warning;
    - a square in fp16 that is 0 for half of its non-zero operands (a variance of small numbers): a warning.
    """

    operations = None

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._pending: list[Finding] = []  # told where loss or gradients are not finite in the end

    def see(self, call: Call) -> Iterable[Finding]:
        """Any result."""
        for _, facts in call.outputs:
            if not facts.is_finite and call.is_finite_before and call.name not in _MADE:
                return self._left(call, facts)
            if facts.dtype == torch.float16 and facts.reach >= 65504 / HEADROOM:
                return self._near(call, facts)
        return self._squares(call) if call.name in ("pow", "mul") else ()

    def end(self, step: Step) -> Iterable[Finding]:
        """What was not finite and has come through: what a mask took out again is none of anybody's."""
        return () if step.is_finite else self._pending

    def _left(self, call: Call, facts: Facts) -> tuple[Finding, ...]:
        """A result that is not finite although its operands are."""
        operands = max((f.amax for _, f in call.inputs), default=0.0)
        is_pole = _meets_pole(call)
        if is_pole and not call.needs_grad:
            return ()
        if call.place.backward:
            self._pending.append(self._pole(call, facts) if is_pole else self._backward(call, facts, operands))
        elif is_pole:
            self._pending.append(self._pole(call, facts))
        else:
            return (self._overflow(call, facts, operands),)
        return ()

    def _overflow(self, call: Call, facts: Facts, operands: float) -> Finding:
        limit = torch.finfo(facts.dtype).max
        return call.finding(
            "fault",
            "overflow",
            f"{shown(call.name)} of finite operands (up to {operands:g}) is {_kind(facts)} in {short(facts.dtype)}",
            evidence={"nonfinite": facts.nonfinite, "limit": limit, "largest operand": operands},
            threshold=f"{short(facts.dtype)} ends at {limit:g}",
            remedy=self._wider(facts.dtype)
            + "scale the activations down before (a norm, a smaller initial weight), or "
            + ("compute this operation in fp32" if facts.dtype == torch.float16 else "bound the operand"),
            rule=self._rule(facts.dtype),
        )

    def _wider(self, dtype: torch.dtype) -> str:
        """The remedy that a wider range is, where there is one."""
        if dtype != torch.float16:
            return f"no dtype below fp64 has a wider range than {short(dtype)}: "
        if self.setting.conversion is None:
            return "use bf16 (autocast's, or recipe 'bf16'), which has fp32's range; or "
        if self.setting.compute == torch.float16:
            return "use recipe 'bf16', which has fp32's range; or "
        return f"take the model's own cast to fp16 away, which recipe {self.setting.recipe} does not make; or "

    def _rule(self, dtype: torch.dtype) -> str:
        return _BF16 if dtype == self.setting.compute == torch.float16 else ""

    def _backward(self, call: Call, facts: Facts, operands: float) -> Finding:
        """A gradient that overflows; where a cast did it, the scale at which it would not is known."""
        dtype, scale, limit = short(facts.dtype), self.setting.loss_scale, torch.finfo(facts.dtype).max
        fitting = scale * limit / operands if call.name == "_to_copy" and operands > limit else scale / 64
        is_fp16 = facts.dtype == torch.float16
        is_ordinary = self.setting.is_dynamic and is_fp16 and fitting >= 1
        smaller = max(_power_below(fitting / 2), 1.0)
        if is_ordinary:
            told = (
                f"the first steps are skipped until the dynamic loss scale ({scale:g}) has come down; that is ordinary"
            )
            remedy = f"nothing; or begin with a smaller scale, e.g. {smaller:g}"
        elif is_fp16 and scale > 1 and fitting >= 1:
            told = f"the loss scale ({scale:g}) is too large, and every step is skipped or wrong"
            remedy = f"a loss scale of {smaller:g}, or a dynamic one"
        else:
            told = "a finite forward pass has a broken gradient, at any loss scale"
            remedy = (
                "look at the operation: where its operand is 0 (root, norm, log, division) put an eps inside, in fp32; "
                "where it divides by a small number, do that in fp32"
            )
        return call.finding(
            "note" if is_ordinary else "fault",
            "gradient overflow",
            f"the gradient of {call.place.operation} is {_kind(facts)} in {dtype}: {told}",
            evidence={"largest operand": operands, "limit": limit, "loss scale": scale},
            threshold=f"{dtype} ends at {limit:g}",
            remedy=remedy,
            rule=_initial(smaller) if is_fp16 and scale > 1 and fitting >= 1 else "",
        )

    def _pole(self, call: Call, facts: Facts) -> Finding:
        is_flushed = any(f.dtype in NARROW or f.narrowed is not None for _, f in call.inputs)
        cause = "a value that 16 bits may have made zero" if is_flushed else "zero or less"
        where = f" in the gradient of {call.place.operation}" if call.place.backward else ""
        return call.finding(
            "fault",
            "logarithm, root or division of zero",
            f"{shown(call.name)} of {cause} is {_kind(facts)}{where}",
            evidence={
                "lowest operand": min((f.low for _, f in call.inputs), default=0.0),
                "nonfinite": facts.nonfinite,
            },
            threshold="finite results of finite operands",
            remedy="put an eps where its operand is made (inside the root, in fp32), or clamp the operand before",
        )

    def _near(self, call: Call, facts: Facts) -> Iterator[Finding]:
        if call.place.backward and self.setting.is_dynamic:
            return
        if call.place.backward:
            smaller = max(_power_below(self.setting.loss_scale * 65504 / HEADROOM / facts.reach), 1.0)
            remedy, rule = f"a loss scale of {smaller:g}, or a dynamic one", _initial(smaller)
        else:
            remedy, rule = f"{self._wider(torch.float16)}scale the activations down before", self._rule(torch.float16)
        yield call.finding(
            "warning",
            "close to fp16's limit",
            f"{shown(call.name)} gives values up to {facts.reach:g} in fp16, which ends at 65504",
            evidence={"largest": facts.reach, "limit": 65504.0},
            threshold=f"1/{HEADROOM:g} of the limit ({65504 / HEADROOM:g})",
            remedy=remedy,
            rule=rule,
        )

    def _squares(self, call: Call) -> Iterator[Finding]:
        by = call.args[1]
        is_square = by is call.args[0] if call.name == "mul" else type(by) in (int, float) and by == 2
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


def _meets_pole(call: Call) -> bool:
    """Whether an operand is where the operation is infinite or undefined; else its result overflowed."""
    name = call.name.rstrip("_")
    if name == "div":
        return _has(call, 1, lambda low, high: low <= 0 <= high)
    if name == "pow":
        by = call.args[1]
        if type(by) in (int, float) and by >= 0:
            return by != int(by) and _has(call, 0, lambda low, _: low < 0)
        return _has(call, 0, lambda low, high: low <= 0 <= high)
    for names, is_outside in _POLES.items():
        if name in names:
            return _has(call, 0, is_outside)
    return False


def _has(call: Call, index: int, is_outside: Callable[[float, float], bool]) -> bool:
    """Whether the range of an argument, a number or a tensor, holds such a value."""
    value = call.args[index] if index < len(call.args) else None
    if isinstance(value, (int, float)):
        return is_outside(value, value)
    facts = call.facts(index)
    return facts is None or is_outside(facts.low, facts.high)


def _kind(facts: Facts) -> str:
    return "NaN" if facts.has_nan and not facts.has_inf else "inf"


def _initial(scale: float) -> str:
    return f'[loss_scale]\nkind = "dynamic"\ninitial = {scale:.1f}\n'


def _power_below(x: float) -> float:
    """The largest power of two that is not larger."""
    return 2.0 ** math.floor(math.log2(x)) if x > 0 else 1.0
