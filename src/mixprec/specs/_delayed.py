"""Delayed scaling: a scale from the amaxes of earlier passes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from ..formats import unknown_name
from ._kinds import WHOLE, check_kinds

DelayedAlgorithm = Literal["max", "recent"]
# 4 MiB of fp32 for each operand.
MAX_HISTORY = 2**20
_FORM = re.compile(r"delayed(?:\(([^()]*)\))?")


@dataclass(frozen=True, kw_only=True)
class Delayed:
    """Which earlier amaxes a scale comes from.

    The scale is ready before the tensor is, which spares a pass over it; a tensor that outgrows its history
    saturates. A pass whose history is empty takes the tensor's own amax.

    Attributes:
        history: how many passes are remembered.
        algorithm: ``"max"``: the largest of them; ``"recent"``: the last one.
        margin: the scale is larger by ``2**margin``, so that a tensor may grow by as much.

    Raises:
        ValueError: a history outside of 1 to 2**20, an unknown algorithm, or a margin outside of 0 to 16.
        TypeError: one that is no integer.

    Source: the defaults are those of NVIDIA Transformer Engine's ``DelayedScaling``.

    Example:
        >>> str(Delayed()), str(Delayed(history=16, algorithm="recent"))
        ('delayed', 'delayed(16,recent)')
    """

    history: int = 1024
    algorithm: DelayedAlgorithm = "max"
    margin: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(DelayedAlgorithm):
            raise unknown_name("algorithm of delayed scaling", self.algorithm, get_args(DelayedAlgorithm))
        check_kinds("delayed scaling", self, {"history": WHOLE, "margin": WHOLE})
        if not 1 <= self.history <= MAX_HISTORY or not 0 <= self.margin <= 16:
            raise ValueError(
                f"delayed scaling has history={self.history}, margin={self.margin}: expected 1 to {MAX_HISTORY}, and 0 "
                "to 16"
            )

    def __str__(self) -> str:
        parts = [str(self.history), self.algorithm, str(self.margin)]
        defaults = [str(Delayed.history), Delayed.algorithm, str(Delayed.margin)]
        while parts and parts[-1] == defaults[len(parts) - 1]:
            parts.pop()
        return f"delayed({','.join(parts)})" if parts else "delayed"


def parse_delayed(word: str) -> Delayed | None:
    """Read ``delayed``, ``delayed(16)``, ``delayed(16,recent)`` or ``delayed(16,max,1)``; ``None`` for another word.

    Raises:
        ValueError: it begins so and cannot be read on.

    Example:
        >>> parse_delayed("delayed(16,max,1)"), parse_delayed("rceil")
        (Delayed(history=16, algorithm='max', margin=1), None)
    """
    if not word.startswith("delayed"):
        return None
    found = _FORM.fullmatch(word)
    parts = found[1].split(",") if found and found[1] else []
    numbers = [number.strip() for number in (*parts[:1], *parts[2:])]
    if not found or len(parts) > 3 or not all(map(str.strip, parts)) or not all(map(str.isdecimal, numbers)):
        raise ValueError(
            f"'{word}' cannot be read: expected delayed(history,algorithm,margin), as in delayed(16,max,0)"
        )
    values: dict[str, object] = dict(zip(("history", "algorithm", "margin"), map(str.strip, parts), strict=False))
    return Delayed(**{name: value if name == "algorithm" else int(str(value)) for name, value in values.items()})  # pyright: ignore[reportArgumentType]
