"""Why a step was skipped, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from torch.nn import Parameter

from ..loss_scaling import ScaleState, scale_text
from ..monitor.locate import LOSS
from ..specs import LossScale
from ._scales import LossScales
from ._verdict import Verdict

_LIMITS = {"fp16": "fp16 limit 65504"}


def skip_reason(
    verdict: Verdict,
    names: Mapping[Parameter, str],
    compute_dtype: str,
    scaling: str,
    located: tuple[str, str] = ("", ""),
    how: str = "",
) -> tuple[str, str]:
    """Say what went bad first, as it was located, or which gradient.

    Of gradients that is the last one in the model's registration order, where backward begins.

    Args:
        verdict: of the step.
        names: of the model's parameters, in registration order.
        compute_dtype: of the recipe.
        scaling: what became of the loss scales; may be empty.
        located: the first bad value in words, and its site; empty where nobody has found it.
        how: what finds it then; may be empty.

    Returns:
        The reason, and the site or the parameter's name; none where only another rank has such a gradient.
    """
    found = {p: norm for optimizer in verdict.norms for p, norm in verdict.bad(optimizer).items()}
    bad = [(name, found[p]) for p, name in names.items() if p in found]
    bad_losses = [loss for _, loss in verdict.losses if not math.isfinite(loss)]
    if bad_losses and located[1].startswith(LOSS):
        located = ("", "")  # which is said already; which gradients it spoiled is not
    how = "" if located[0] else how
    text = located[0] or _gradient_text(bad, compute_dtype) or "gradients of another rank are not finite"
    if bad_losses:
        text = f"the loss is {_kind(bad_losses[0])}; {text}"
    return "skipped: " + "; ".join(filter(None, (text, how, scaling))), located[1] or (bad[-1][0] if bad else "")


def skipped_optimizers(verdict: Verdict, names: Mapping[Parameter, str], compute_dtype: str) -> dict[str, str]:
    """Say of each optimizer that was to step and does not: why."""
    if verdict.is_finite:
        return {name: _WITHOUT for name in verdict.norms if name not in verdict.steps}
    own = {
        name: _gradient_text([(names[p], norm) for p, norm in verdict.bad(name).items()], compute_dtype)
        for name in verdict.norms
    }
    culprits = " and ".join(name for name, text in own.items() if text) or "another rank"
    return {name: text or f"it steps together with {culprits}, which is not finite" for name, text in own.items()}


def no_gradient_reason(reaches: bool) -> str:
    """Say why there was nothing to do.

    Args:
        reaches: whether a loss was backpropagated.
    """
    what = "the loss does not reach its parameters" if reaches else "call session.step(loss), or session.backward(loss)"
    return f"nothing to do: no parameter of the optimizer has a gradient: {what}"


def scaling_text(spec: LossScale, before: ScaleState, after: ScaleState, loss: str = "") -> str:
    """Say what a skipped step did to a loss scale.

    Args:
        spec: how the loss is scaled.
        before: its scale before the step.
        after: and after it.
        loss: its name, where there are several.
    """
    what = f"loss scale of '{loss}'" if loss else "loss scale"
    if spec.kind == "none":
        return ""
    if spec.kind == "static":
        return f"{what} stays {scale_text(before.scale)} (static): give a smaller one, or a dynamic one"
    if before.scale > after.scale:
        return f"{what} {scale_text(before.scale)} -> {scale_text(after.scale)}"
    if after.overflows < spec.hysteresis:
        return (
            f"{what} stays {scale_text(after.scale)}: {after.overflows} of {spec.hysteresis} overflows that shrink it"
        )
    floor = scale_text(after.scale)
    return f"{what} at its floor {floor}: not the scale is at fault, but the data, the loss or the weights"


def scaling_texts(scales: LossScales, before: Mapping[str, ScaleState], losses: Iterable[str]) -> str:
    """Say what a skipped step did to the scales of some losses; each by its name, where there are several.

    Args:
        scales: after the step.
        before: their states before it.
        losses: names.
    """
    texts = [
        scaling_text(scales.spec(name), before[name], scales.state(name), name if len(scales.names) > 1 else "")
        for name in sorted(losses)
    ]
    return "; ".join(filter(None, texts))


_WITHOUT = "no parameter of it has a gradient"


def _gradient_text(bad: Sequence[tuple[str, float]], compute_dtype: str) -> str:
    if not bad:
        return ""
    name, value = bad[-1]
    text = f"{_kind(value)} in gradient of {name}"
    if len(bad) > 1:
        text += f" (and of {len(bad) - 1} more)"
    if math.isinf(value) and compute_dtype in _LIMITS:
        text += f", {_LIMITS[compute_dtype]}"
    return text


def _kind(value: float) -> str:
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
