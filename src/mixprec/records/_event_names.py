"""Names of events that whoever reads records goes by."""

from __future__ import annotations

#: Name of the event from which on a run was continued: it replaces what was recorded from its step on.
RESUMED = "resumed"

#: Names of the events of steps that changed no weight: a gradient was not finite, or a guard left them out.
SKIPS = frozenset({"skipped", "left out"})

#: Name of the event of a run that others ran beside: its times say nothing of its recipe.
BESIDE = "beside others"
