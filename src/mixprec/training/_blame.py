"""Why a step was skipped, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from torch.nn import Parameter

from ..loss_scaling import ScaleState, scale_text
from ..specs import LossScale
from ._verdict import Verdict

_LIMITS = {"fp16": "fp16 limit 65504"}


def skip_reason(bad: Sequence[tuple[str, float]], losses: Iterable[float], compute_dtype: str, scaling: str) -> str:
    """Say which gradient went bad first.

    Args:
        bad: names of the parameters whose gradient is not finite, in registration order, each with the inf or NaN
            in it; the last one is the first that backward reached. None, where only another rank has such.
        losses: values of the losses that were backpropagated.
        compute_dtype: of the recipe.
        scaling: what became of the loss scale; may be empty.

    Example:
        >>> skip_reason([("fc1.weight", math.nan), ("fc2.weight", math.inf)], [1.0], "fp16", "loss scale 4 -> 2")
        'skipped: inf in gradient of fc2.weight (and of 1 more), fp16 limit 65504; loss scale 4 -> 2'
    """
    text = _gradient_text(bad, compute_dtype) or "gradients of another rank are not finite"
    bad_losses = [loss for loss in losses if not math.isfinite(loss)]
    if bad_losses:
        text = f"the loss is {_kind(bad_losses[0])}; {text}"
    return "skipped: " + "; ".join(filter(None, (text, scaling)))


def bad_gradients(verdict: Verdict, names: Mapping[Parameter, str]) -> list[tuple[str, float]]:
    """The parameters whose gradient is not finite, in the model's registration order.

    Args:
        verdict: of the step.
        names: of the model's parameters.
    """
    found = {p: norm for optimizer in verdict.norms for p, norm in verdict.bad(optimizer).items()}
    return [(name, found[p]) for p, name in names.items() if p in found]


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
