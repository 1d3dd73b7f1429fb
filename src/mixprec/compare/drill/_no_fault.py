"""A run without a fault."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar, final

from ._fault import Fault


@final
@dataclass(frozen=True, kw_only=True)
class NoFault(Fault):
    """Nothing is done to the run."""

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "no fault"
    within: ClassVar[int | None] = None

    at: int = sys.maxsize
