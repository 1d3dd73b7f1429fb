"""The end of a guarded run."""

from __future__ import annotations

from ...records import IncidentRecord


class RunStopped(RuntimeError):
    """No rung of the ladder is left; the session is at its last good state, where it had one.

    Attributes:
        incident: what it was.

    Args:
        incident: what it was.
    """

    def __init__(self, incident: IncidentRecord) -> None:
        self.incident = incident
        where = "" if incident.back_to is None else f"; the state is that of step {incident.back_to}, the last good one"
        site = f" at {incident.site}" if incident.site else ""
        super().__init__(
            f"step {incident.step}: {incident.trigger}{site}: the guard has no rung left and stops the run{where}; "
            f"incident {incident.number} tells what was seen, and those before it what was tried"
        )
