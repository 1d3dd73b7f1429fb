"""Hard-coded masks: constants that the dtype does not hold, sums that leave it, rows that are masked whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ..._finding import Finding
from .._call import Call, elsewhere, short
from .._provenance import MASK_FROM, is_filled
from .._values import NARROW, Facts
from ._detector import Detector

#: What fp16 adds to its lowest number without leaving it: half of its last place there.
ROOM = 16.0
#: What a mask must lie below the largest score: exp(-16) is a quarter of bf16's and fp16's last place, and less.
DEPTH = 16.0
_FILLS = frozenset({"masked_fill", "where", "full", "full_like", "fill", "scalar_tensor", "new_full", "mul"})
_SUMS = frozenset({"add", "sub"})
_SOFTMAXES = frozenset({"_softmax", "_log_softmax", "_safe_softmax"})
_ATTENTION = frozenset(
    [
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_attention_math",
    ]
)
_REMEDY = (
    "mask with a boolean (scaled_dot_product_attention takes it), or masked_fill(mask, float('-inf')) and leave no row "
    "without an entry; or add the mask in fp32"
)


class MaskDetector(Detector):
    """Masks that are numbers.

    - a constant of magnitude 1e3 or more that overflows the 16-bit tensor it is put in (``-1e9`` in fp16): a warning;
    - a sum of a mask and scores that overflows: a fault; one that would with a score below -16
      (lowest fp16 plus -20 is -inf): a warning;
    - a row of ``-inf`` alone before a softmax: a fault, for the softmax is NaN;
    - a finite mask less than 16 below the scores' largest magnitude: a warning, for it masks nothing.
    - a note where the recipe makes up for it (fills or adds in fp32).
    """

    operations = frozenset(
        name for one in _FILLS | _SUMS | _SOFTMAXES | _ATTENTION for name in (one, f"{one}_")
    ) | frozenset({"softmax"})

    def see(self, call: Call) -> Iterable[Finding]:
        """A fill, a sum or a softmax of scores."""
        name = call.name[:-1] if call.name.endswith("_") and not call.name.startswith("__") else call.name
        if call.place.backward:
            return ()
        if name in _SOFTMAXES:
            return self._rows(call)
        if name in _ATTENTION:
            return self._attention(call)
        return self._sums(call) if name in _SUMS and self._two(call) else self._fills(call, name)

    def _two(self, call: Call) -> bool:
        return all(isinstance(a, Tensor) for a in call.args[:2])

    def _fills(self, call: Call, name: str) -> Iterator[Finding]:
        numbers = [*call.numbers, *(f.low for t, f in call.inputs if name == "where" and t.dim() == 0)]
        constants = [n for n in numbers if MASK_FROM <= abs(n) < float("inf")]
        if not constants or call.result is None or not (name == "where" or is_filled(call, name, call.result[0])):
            return
        made = call.result[1]
        worst = max(constants, key=abs)
        limit = torch.finfo(made.dtype).max
        if made.dtype in NARROW and not made.is_finite and abs(worst) > limit:
            yield self._overflow(call, made, worst, limit)
        elif (widened := _instead(call)) is not None and abs(worst) > torch.finfo(widened).max:
            yield self._note(call, worst, widened)
        elif name == "masked_fill" and worst < 0 and (scores := call.facts(0)) is not None:
            yield from self._shallow(call, worst, scores)

    def _overflow(self, call: Call, made: Facts, worst: float, limit: float) -> Finding:
        return call.finding(
            "warning",
            "hard-coded mask",
            f"the constant {worst:g} is {'-' if worst < 0 else ''}inf in {short(made.dtype)}: a row that is masked "
            "whole becomes NaN in the softmax, and 0 * inf NaN in a product",
            evidence={"constant": worst, "limit": limit},
            threshold=f"{short(made.dtype)} holds {limit:g}",
            remedy=_REMEDY,
        )

    def _note(self, call: Call, worst: float, widened: torch.dtype) -> Finding:
        return call.finding(
            "note",
            "hard-coded mask",
            f"the constant {worst:g} does not fit {short(widened)}; the recipe fills in fp32 here, code outside of the "
            "model would not",
            evidence={"constant": worst, "limit": torch.finfo(widened).max},
            threshold=f"{short(widened)} holds {torch.finfo(widened).max:g}",
            remedy=elsewhere(_REMEDY),
        )

    def _shallow(self, call: Call, constant: float, scores: Facts) -> Iterator[Finding]:
        if scores.is_mask or scores.low - constant >= DEPTH or not scores.is_finite:
            return
        yield call.finding(
            "warning",
            "mask too weak",
            f"scores reach {scores.low:g}, and the mask's constant is {constant:g}: masked entries are no smaller than "
            "others",
            evidence={"constant": constant, "lowest score": scores.low},
            threshold=f"at least {DEPTH:g} below every score",
            remedy=_REMEDY,
        )

    def _sums(self, call: Call) -> Iterator[Finding]:
        a, b = call.facts(0), call.facts(1)
        if a is None or b is None or call.result is None:
            return
        made = call.result[1]
        deepest = min((a, b), key=lambda f: f.low)
        other = b if deepest is a else a
        widened = a.widened or b.widened or made.kept
        if made.dtype in NARROW and deepest.low < -MASK_FROM and a.is_finite and b.is_finite:
            limit = torch.finfo(made.dtype).max
            if not made.is_finite:
                yield self._sum(call, "fault", deepest, other, limit)
            elif deepest.is_mask and limit + deepest.low < ROOM and made.dtype == torch.float16:
                yield self._sum(call, "warning", deepest, other, limit)
        elif widened == torch.float16 and deepest.low <= -65504 and deepest.is_mask:
            yield self._sum(call, "note", deepest, other, 65504.0)

    def _sum(self, call: Call, severity: str, mask: Facts, scores: Facts, limit: float) -> Finding:
        told = {
            "fault": f"makes -inf: the mask's {mask.low:g} plus scores down to {scores.low:g} leaves the range; a row "
            "that is masked whole is NaN after the softmax (a -inf row)",
            "warning": f"has no room: the mask's {mask.low:g} plus a score below -16 is -inf, and a row that is masked "
            f"whole is NaN then; scores reach {scores.low:g} here",
            "note": f"is taken in fp32 by the recipe: the mask's {mask.low:g} plus a score below -16 would be -inf",
        }[severity]
        return call.finding(
            "fault" if severity == "fault" else "warning" if severity == "warning" else "note",
            "mask plus score",
            f"the sum {told}",
            evidence={"mask": mask.low, "lowest score": scores.low, "limit": limit},
            threshold=f"a mask more than {ROOM:g} above -{limit:g}",
            remedy=elsewhere(_REMEDY) if severity == "note" else _REMEDY,
        )

    def _rows(self, call: Call) -> Iterator[Finding]:
        facts = call.facts(0)
        if facts is None or facts.is_finite or call.name == "_safe_softmax":
            return
        x, dim = call.args[0].detach(), int(call.args[1])
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            rows = int((x == float("-inf")).all(dim).sum()) if x.dim() else 0
            total = max(x.numel() // max(x.shape[dim], 1), 1) if x.dim() else 1
        if rows:
            yield self._masked_rows(call, f"{rows} of {total} rows are -inf in every entry", rows)

    def _attention(self, call: Call) -> Iterator[Finding]:
        operands = [call.facts(i) for i in range(3)]
        if call.result is None or call.result[1].is_finite or any(f is None or not f.is_finite for f in operands):
            return
        yield self._masked_rows(call, "attention of finite operands is not finite: a row is masked whole", 1)

    def _masked_rows(self, call: Call, told: str, rows: int) -> Finding:
        return call.finding(
            "fault",
            "masked row",
            f"{told} (-inf rows), and their softmax is NaN",
            evidence={"rows": rows},
            threshold="no row without a finite entry",
            remedy="leave one entry unmasked in every row (padding's own position), or overwrite such rows: "
            "torch.where(mask.any(-1, keepdim=True), weights, 0)",
        )


def _instead(call: Call) -> torch.dtype | None:
    """The 16-bit dtype in whose place the recipe fills in fp32."""
    if call.result is None or call.result[1].dtype in NARROW:
        return None
    return next((f.widened for _, f in call.inputs if f.widened is not None), None) or call.result[1].kept
