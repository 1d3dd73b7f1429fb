"""A run in the terminal while it goes on: from a loop's own process, or from its run folder in another one."""

from ._live_view import LiveView
from ._watch import watch

__all__ = ["LiveView", "watch"]
