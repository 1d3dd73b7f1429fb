"""What a guard says of one step."""

from __future__ import annotations

from dataclasses import dataclass

from ...guard import Decision, Seen


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What becomes of a step.

    Attributes:
        seen: what was looked at; ``None`` where nobody looks.
        decision: what is to be done; ``None``: nothing.
        number: of the incident that it belongs to.
        clip_to: norm that the gradient is clipped to; ``None``: as the session does.

    Example:
        >>> Ruling().holds, Ruling().clip_to
        (False, None)
    """

    seen: Seen | None = None
    decision: Decision | None = None
    number: int = 0
    clip_to: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the update is not to be made."""
        return self.decision is not None and self.decision.changes_update

    @property
    def reason(self) -> str:
        """Why, and what is done, in a sentence."""
        if self.decision is None:
            return ""
        return f"guard: {self.decision.trigger}: {self.decision.action()} (incident {self.number})"
