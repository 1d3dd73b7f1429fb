"""From where on something is worth an alarm: one table of numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """From where on an alarm goes off. ``docs/monitor/alarms.md`` says where each number comes from.

    Attributes:
        window: ordinary steps before that a median is taken over.
        smoothing: last steps whose mean tells a rise of the loss.
        loss_mad: a rise is one beyond this many standard deviations of such a mean, from 1.4826 MAD ...
        loss_share: ... and beyond this share of the median.
        loss_spike_mad: a spike is a single loss beyond this many standard deviations ...
        loss_spike_share: ... and beyond this share of the median.
        norm_mad: a spike of the gradient norm is one beyond this many standard deviations of its logarithm ...
        norm_spike: ... and from this many times its median on.
        norm_drift: a median of ``drift_window`` steps this many times the lowest earlier one is a drift.
        drift_window: steps that a drifting median is taken over.
        scale_halvings: halvings of a loss scale within ``scale_steps`` steps that make a collapse; those before the
            first ``window`` applied steps are its way down from its start and do not count.
        scale_steps: steps that they are counted over.
        skipped_in_row: steps skipped in a row.
        flushed: share of the non-zero elements of a tensor that become zero.
        vanished: share of the elements of an output's gradient that are zero, in fp16.
        saturated: share of the elements beyond the format's range.
        rising: how many times the median of its earlier samples a share must be to be called rising ...
        rising_least: ... and from which share on.
        sqnr_db: a signal-to-noise ratio below this is noise [dB].
        lost: share of a parameter's updates that rounding lost.
        rearm: steps (of samples of a tensor a tenth, at least one) that a condition must be gone to be told again.

    Raises:
        ValueError: a number that is not positive, or a share that is not below 1.

    Example:
        >>> Thresholds(window=10).loss_mad
        5.0
    """

    window: int = 40
    smoothing: int = 8
    loss_mad: float = 5.0
    loss_share: float = 0.04
    loss_spike_mad: float = 12.0
    loss_spike_share: float = 0.25
    norm_mad: float = 6.0
    norm_spike: float = 10.0
    norm_drift: float = 5.0
    drift_window: int = 100
    scale_halvings: int = 5
    scale_steps: int = 100
    skipped_in_row: int = 8
    flushed: float = 0.5
    vanished: float = 0.95
    saturated: float = 0.05
    rising: float = 3.0
    rising_least: float = 0.02
    sqnr_db: float = 6.0
    lost: float = 0.5
    rearm: int = 50

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
                raise ValueError(f"Thresholds: {field.name} is {value!r}: expected a number above 0")
        for name in ("flushed", "vanished", "saturated", "rising_least", "lost"):
            if getattr(self, name) >= 1.0:
                raise ValueError(f"Thresholds: {name} is {getattr(self, name)!r}, a share: expected a number below 1")
        for name in ("window", "smoothing", "drift_window", "scale_halvings", "scale_steps", "skipped_in_row", "rearm"):
            if not isinstance(getattr(self, name), int):
                raise ValueError(f"Thresholds: {name} is {getattr(self, name)!r}: expected a whole number")
