"""What is to be told of scores: what they were measured without, and where nothing was found."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...specs import OPERANDS, Cast, LayerPrecision
from .._candidate import Candidate
from .._scores import GroupScores


def notes_on(groups: Sequence[GroupScores], candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """One sentence for each thing that a reader of the scores would not expect."""
    notes = [
        f"no gradient came back to {group.name}: the loss of these batches does not depend on it, and its scores say "
        "nothing"
        for group in groups
        if group.is_dead
    ]
    delayed = [c.name for c in candidates if any(cast.delayed is not None for cast in _casts(c.precision))]
    if delayed:
        notes.append(f"{', '.join(delayed)}: delayed scales were measured as current ones, having no history here")
    transformed = [c.name for c in candidates if any(cast.transform for cast in _casts(c.precision))]
    convolutions = [group for group in groups if any(kind.startswith("Conv") for kind in group.kinds)]
    if transformed and convolutions:
        notes.append(f"{', '.join(transformed)}: convolutions were measured without the Hadamard transform")
    scored = [score for group in groups for score in group.candidates.values() if score.curvature > 0]
    if scored and all(math.isinf(score.slope_error) for score in scored):
        notes.append("each batch has one sample: how far its first order holds for other data is not known, and unused")
    return tuple(notes)


def _casts(precision: LayerPrecision | None) -> list[Cast]:
    if precision is None:
        return []
    return [cast for name in OPERANDS if (cast := precision.operand(name)) is not None]
