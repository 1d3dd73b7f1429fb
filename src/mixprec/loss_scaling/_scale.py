"""The scale of a loss as a value, and how one step changes it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real

from ..specs import LossScale


@dataclass(frozen=True)
class ScaleState:
    """What a loss scale remembers between steps.

    Attributes:
        scale: what the next loss is multiplied by; a power of two, so that scaling and unscaling are exact.
        good_steps: applied steps since the last change of the scale; at the largest scale it stops at the
            growth interval.
        overflows: steps that were not finite since the last growth, counted up to the hysteresis.
        skipped_in_row: skipped steps since the last applied one.
    """

    scale: float
    good_steps: int = 0
    overflows: int = 0
    skipped_in_row: int = 0


@dataclass(frozen=True)
class ScaleEvent:
    """Something about the scale that a user should hear of."""

    name: str
    message: str


def init(spec: LossScale) -> ScaleState:
    """Give the state before the first step.

    Raises:
        ValueError: a scale or a factor that is not a power of two: unscaling would round.

    Example:
        >>> init(LossScale(kind="dynamic"))
        ScaleState(scale=65536.0, good_steps=0, overflows=0, skipped_in_row=0)
        >>> init(LossScale(kind="none")).scale
        1.0
    """
    for name in ("initial", "growth", "backoff", "minimum", "maximum"):
        value = float(getattr(spec, name))
        if math.frexp(value)[0] != 0.5:
            lower = 2.0 ** (math.frexp(value)[1] - 1)
            raise ValueError(
                f"loss scale: {name} is {value:g}, expected a power of two, which scales and unscales "
                f"exactly: use {lower:g} or {2 * lower:g}"
            )
    return ScaleState(1.0 if spec.kind == "none" else spec.initial)


def after_step(spec: LossScale, state: ScaleState, finite: bool) -> tuple[ScaleState, tuple[ScaleEvent, ...]]:
    """Give the state after one step, and what to tell of it.

    ``none`` and ``static`` never change the scale. ``dynamic`` follows ``torch.amp.GradScaler``: a step with a gradient
    that is not finite multiplies the scale by ``backoff``; ``interval`` applied steps in a row multiply it by
    ``growth``. Beyond it: the first ``hysteresis - 1`` such steps after a growth leave the scale; it stays between
    ``minimum`` and ``maximum``, and reaching either is told once for each stay. A scale below 1 is allowed: gradients
    may exceed what 16 bits hold. Under every kind ``alarm_after`` skipped steps in a row are told, once for each row.

    Args:
        spec: the recipe's loss scale.
        state: before the step.
        finite: whether every gradient was finite, so that the step was applied.

    Source: growth and backoff: ``torch.amp.GradScaler``; hysteresis: Megatron-LM's ``DynamicGradScaler``.

    Example:
        >>> spec = LossScale(kind="dynamic", initial=4.0, interval=2)
        >>> state = init(spec)
        >>> for finite in (False, True, True):
        ...     state, events = after_step(spec, state, finite)
        >>> state
        ScaleState(scale=4.0, good_steps=0, overflows=0, skipped_in_row=0)
    """
    if finite:
        state = replace(state, skipped_in_row=0)
        return _grown(spec, state) if spec.kind == "dynamic" else (state, ())
    alarm = _alarm(spec, state.skipped_in_row + 1)
    new, events = _shrunk(spec, state) if spec.kind == "dynamic" else (state, ())
    return replace(new, skipped_in_row=state.skipped_in_row + 1), (*events, *alarm)


def _grown(spec: LossScale, state: ScaleState) -> tuple[ScaleState, tuple[ScaleEvent, ...]]:
    good_steps = state.good_steps + 1
    if good_steps < spec.interval:
        return replace(state, good_steps=good_steps), ()
    scale = min(state.scale * spec.growth, spec.maximum)
    if scale < spec.maximum:
        return ScaleState(scale), ()
    if state.scale == spec.maximum and state.good_steps >= spec.interval:
        return replace(state, overflows=0), ()  # told when it came here
    return ScaleState(scale, spec.interval), (
        ScaleEvent(
            "loss scale ceiling",
            f"ceiling reached: the loss scale stays at {scale_text(scale)}; gradients this small are zero, or the "
            "loss is too small",
        ),
    )


def _shrunk(spec: LossScale, state: ScaleState) -> tuple[ScaleState, tuple[ScaleEvent, ...]]:
    overflows = min(state.overflows + 1, spec.hysteresis)
    if overflows < spec.hysteresis:
        return ScaleState(state.scale, overflows=overflows), ()
    scale = max(state.scale * spec.backoff, spec.minimum)
    shrunk = ScaleState(scale, overflows=overflows)
    if scale > spec.minimum or replace(state, skipped_in_row=0) == shrunk:
        return shrunk, ()
    return shrunk, (
        ScaleEvent(
            "loss scale floor",
            f"floor reached: the loss scale stays at {scale_text(scale)}; gradients that are not finite even so come "
            "from the data, the loss or the weights, not from the scale",
        ),
    )


def _alarm(spec: LossScale, skipped: int) -> tuple[ScaleEvent, ...]:
    if skipped != spec.alarm_after:
        return ()
    steps = "1 step was" if skipped == 1 else f"{skipped} steps in a row were"
    return (
        ScaleEvent(
            "loss scale alarm",
            f"{steps} skipped: nothing is learned; look at the reasons of the skipped steps, at the data, and at the "
            "learning rate",
        ),
    )


def scale_text(scale: float) -> str:
    """Write a scale for people: powers of two that are long as digits are written as powers.

    Example:
        >>> scale_text(65536.0), scale_text(0.5), scale_text(2.0**120)
        ('65536', '0.5', '2^120')
    """
    return f"{scale:.10g}" if 2.0**-10 <= scale <= 2.0**32 else f"2^{math.frexp(scale)[1] - 1}"


def parse_loss_scale(value: LossScale | float | str) -> LossScale:
    """Read a loss scale from its short forms.

    Args:
        value: a loss scale as it is; a number: static; ``"none"``, ``"static"`` or ``"dynamic"``: with the defaults.

    Raises:
        ValueError: an unknown name, or a number out of range.
        TypeError: something else.

    Example:
        >>> parse_loss_scale(1024).kind, parse_loss_scale("dynamic").initial
        ('static', 65536.0)
    """
    if isinstance(value, LossScale):
        return value
    if isinstance(value, str):
        return LossScale(kind=value)  # pyright: ignore[reportArgumentType]  # the class refuses an unknown name
    return LossScale(kind="static", initial=_number(value))


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(
            f"loss scale is {given!r} ({type(given).__name__}), expected a number, 'none', 'dynamic', or a LossScale"
        )
    return float(given)
