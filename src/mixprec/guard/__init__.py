"""The guard's mind: what is wrong with a step of a run, which rung of the ladder is taken, and the incidents of it.

It knows numbers only; ``mixprec.training`` shows it the steps of a session and does what it decides.
"""

from ._decision import Decision, Place, Possible
from ._guardian import Guardian
from ._seen import Seen, StateNumbers
from ._settings import Clip, Escalate, Guard, Rewind, Scale, Skip, Snapshots
from ._shelf import Shelf
from ._trigger import TRIGGERS, Kind, Trigger

__all__ = [
    "TRIGGERS",
    "Clip",
    "Decision",
    "Escalate",
    "Guard",
    "Guardian",
    "Kind",
    "Place",
    "Possible",
    "Rewind",
    "Scale",
    "Seen",
    "Shelf",
    "Skip",
    "Snapshots",
    "StateNumbers",
    "Trigger",
]
