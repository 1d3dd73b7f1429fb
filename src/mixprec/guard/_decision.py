"""What a guard has decided about a step, and between what it could choose."""

from __future__ import annotations

from dataclasses import dataclass

from ..records import Rung
from ._trigger import NOT_FINITE, Trigger


@dataclass(frozen=True, kw_only=True)
class Place:
    """A good snapshot that the run can go back to.

    Attributes:
        step: applied steps before it.
        batch: number of the batch that comes after it.
        instead: where the run goes back to in its stead, where the snapshot ended with an earlier process; ``None``:
            it is there.
    """

    step: int
    batch: int
    instead: Place | None = None

    @property
    def reached(self) -> Place:
        """Where the run is after going back to it."""
        return self if self.instead is None else self.instead


@dataclass(frozen=True, kw_only=True)
class Possible:
    """What is there to act with.

    Attributes:
        places: good snapshots, the newest first.
        narrow: sites whose casts can be wider.
        guilty: operands among them that were the noisiest when they were looked at last, the worst first.
    """

    places: tuple[Place, ...] = ()
    narrow: tuple[str, ...] = ()
    guilty: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One rung of the ladder.

    Attributes:
        rung: what is to be done.
        trigger: why.
        others: names of what was seen beside it.
        back_to: where to, of a run that goes back.
        leave_out: numbers of batches that are not to be seen again.
        factor: that a loss scale is multiplied by.
        sites: that get wider casts.
        to: width that they get, or ``None``: the next one.
    """

    rung: Rung
    trigger: Trigger
    others: tuple[str, ...] = ()
    back_to: Place | None = None
    leave_out: tuple[int, ...] = ()
    factor: float = 1.0
    sites: tuple[str, ...] = ()
    to: str | None = None

    @property
    def changes_update(self) -> bool:
        """Whether the step's update is not made."""
        return self.rung in ("skip", "scale", "rewind", "escalate", "stop")

    @property
    def stays_the_same(self) -> bool:
        """Whether a run that goes back less far, to the place that is there instead, comes to the same."""
        if self.back_to is None or self.back_to.reached == self.back_to:
            return True
        return self.rung == "rewind" and min(self.leave_out, default=self.back_to.reached.batch) >= (
            self.back_to.reached.batch
        )

    def action(self) -> str:
        """What is done, in a sentence."""
        return _ACTIONS[self.rung](self)


def batches_text(batches: tuple[int, ...]) -> str:
    """Numbers of batches, those that follow one another as a range.

    Example:
        >>> batches_text((3, 4, 5, 9))
        '3 to 5, 9'
    """
    runs: list[list[int]] = []
    for number in sorted(batches):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in runs)


def _skip(decision: Decision) -> str:
    return (
        f"the step is left out, with {'batch' if len(decision.leave_out) == 1 else 'batches'} "
        f"{batches_text(decision.leave_out)}"
        if decision.leave_out
        else "the step is left out"
    )


def _back(decision: Decision) -> str:
    step = 0 if decision.back_to is None else decision.back_to.reached.step
    without = f", without batches {batches_text(decision.leave_out)}" if decision.leave_out else ""
    return f"back to step {step}{without}"


def _wider(decision: Decision) -> str:
    some = ", ".join(decision.sites[:4]) + (f" and {len(decision.sites) - 4} more" if len(decision.sites) > 4 else "")
    return f"{_back(decision)}; wider casts ({decision.to or 'the next width'}) for {some}"


_ACTIONS = {
    "tell": lambda decision: (
        "nothing is done" if decision.trigger.name not in NOT_FINITE else "nothing is done but that the step is skipped"
    ),
    "clip": lambda decision: "the gradient is clipped",
    "scale": lambda decision: f"the loss scale is multiplied by {decision.factor:g}, and the step is left out",
    "skip": _skip,
    "rewind": _back,
    "escalate": _wider,
    "stop": lambda decision: "the run is stopped: no rung of the ladder is left",
}
