"""One training run of a workload: evaluated, saved, and gone on with by the same call."""

from ._position import Position, seed_all
from ._train import train
from ._training import Audience, Outcome, Trained, Training

__all__ = ["Audience", "Outcome", "Position", "Trained", "Training", "seed_all", "train"]
