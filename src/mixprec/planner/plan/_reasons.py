"""Why a group has what it has, and why not something else: sentences from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .._choice import Choice, Option
from ._evidence import GroupEvidence


@dataclass(frozen=True)
class Reasons:
    """What sentences about one choice are made from.

    Attributes:
        choice: of all groups.
        minimise: what was made least.
        limits: what was kept to.
    """

    choice: Choice
    minimise: str
    limits: Mapping[str, float]

    def of(self, name: str, sites: tuple[str, ...], options: Sequence[Option]) -> GroupEvidence:
        """What a group was given, with the reasons."""
        chosen = next(option for option in options if option.candidate == self.choice.candidates[name])
        others = [option for option in options if option is not chosen]
        runner_up = min((o for o in others if o.allowed), key=lambda o: self._distance(o, chosen), default=None)
        return GroupEvidence(
            name=name,
            sites=sites,
            candidate=chosen.candidate,
            reason=self._reason(chosen, others),
            runner_up="" if runner_up is None else runner_up.candidate,
            why_not="" if runner_up is None else self.why_not(runner_up, chosen),
            options=tuple(options),
        )

    def why_not(self, other: Option, chosen: Option) -> str:
        """Why another option of the group was not taken."""
        if other.barred:
            return other.barred
        gain = chosen.of(self.minimise) - other.of(self.minimise)
        if gain < 0:
            return f"it would take {_of(self.minimise, -gain)} more"
        for limit, most in self.limits.items():
            extra, left = other.of(limit) - chosen.of(limit), most - self.choice.of(limit)
            if extra > left:
                spared, room = _of(self.minimise, gain), f"{_of(limit, left)} of {_of(limit, most)} left"
                return f"it would spare {spared} for {_of(limit, extra)} more {limit}, with {room}"
        return "it is no better in anything"

    def _reason(self, chosen: Option, others: Sequence[Option]) -> str:
        allowed = [option for option in others if option.allowed]
        if not allowed:
            barred = "; ".join(f"{option.candidate}: {option.barred}" for option in others)
            return f"the only one that it may have ({barred})" if barred else "the only candidate"
        if all(option.of(self.minimise) >= chosen.of(self.minimise) for option in allowed):
            return f"the least {self.minimise} of all that it may have, at {_of('loss', chosen.loss)} of loss"
        taken = _of(self.minimise, chosen.of(self.minimise))
        return f"the best that the limits leave: {taken} at {_of('loss', chosen.loss)} of loss"

    def _distance(self, option: Option, chosen: Option) -> tuple[bool, float]:
        """Options that are better but for a limit come first, those that cost least of it before the others."""
        better = option.of(self.minimise) < chosen.of(self.minimise)
        return not better, abs(option.loss - chosen.loss) if better else option.of(self.minimise)


def _of(quantity: str, value: float) -> str:
    """A quantity with its unit.

    Example:
        >>> _of("seconds", 0.00123), _of("bytes", 1500), _of("loss", 0.01234)
        ('1.23 ms', '1,500 bytes', '0.0123')
    """
    if quantity == "seconds":
        return f"{value * 1e3:.3g} ms"
    return f"{value:,.0f} bytes" if quantity == "bytes" else f"{value:.3g}"
