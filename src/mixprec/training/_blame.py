"""Why a step was skipped, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..loss_scaling import ScaleState, scale_text
from ..specs import LossScale

_LIMITS = {"fp16": "fp16 limit 65504"}


def skip_reason(bad: Sequence[tuple[str, float]], losses: Iterable[float], compute_dtype: str, scaling: str) -> str:
    """Say which gradient went bad first.

    Args:
        bad: names of the parameters whose gradient is not finite, in registration order, each with the inf or NaN
            in it; the last one is the first that backward reached.
        losses: values of the losses that were backpropagated.
        compute_dtype: of the recipe.
        scaling: what became of the loss scale; may be empty.

    Example:
        >>> skip_reason([("fc1.weight", math.nan), ("fc2.weight", math.inf)], [1.0], "fp16", "loss scale 4 -> 2")
        'skipped: inf in gradient of fc2.weight (and of 1 more), fp16 limit 65504; loss scale 4 -> 2'
    """
    name, value = bad[-1]
    text = f"{_kind(value)} in gradient of {name}"
    if len(bad) > 1:
        text += f" (and of {len(bad) - 1} more)"
    if math.isinf(value) and compute_dtype in _LIMITS:
        text += f", {_LIMITS[compute_dtype]}"
    bad_losses = [loss for loss in losses if not math.isfinite(loss)]
    if bad_losses:
        text = f"the loss is {_kind(bad_losses[0])}; {text}"
    return "skipped: " + "; ".join(filter(None, (text, scaling)))


def scaling_text(spec: LossScale, before: ScaleState, after: ScaleState) -> str:
    """Say what a skipped step did to the loss scale."""
    if spec.kind == "none":
        return ""
    if spec.kind == "static":
        return f"loss scale stays {scale_text(before.scale)} (static): give a smaller one, or a dynamic one"
    if before.scale == after.scale:
        floor = scale_text(after.scale)
        return f"loss scale at its floor {floor}: not the scale is at fault, but the data, the loss or the weights"
    return f"loss scale {scale_text(before.scale)} -> {scale_text(after.scale)}"


def _kind(value: float) -> str:
    return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
