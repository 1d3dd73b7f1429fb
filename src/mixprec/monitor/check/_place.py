"""Where an operation ran: module, operation, and the user's line."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import torch

#: What runs in no module of the model.
LOSS = "<loss>"
_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_PRODUCTS = os.path.join(_PACKAGE, "nn") + os.sep
_TORCH = str(Path(torch.__file__).resolve().parent) + os.sep
_SITE_PACKAGES = f"site-packages{os.sep}"
# Functions of mixprec.nn that call what the user has called, unchanged.
_PASSING = frozenset({"apply_rules", "counted", "__torch_function__"})


def shown(operator: str) -> str:
    """An operator's name as people know it.

    Example:
        >>> shown("_to_copy"), shown("masked_fill_"), shown("_softmax")
        ('cast', 'masked_fill', 'softmax')
    """
    return "cast" if operator == "_to_copy" else operator.strip("_")


@dataclass(frozen=True)
class Place:
    """Where an operation ran.

    Attributes:
        path: of the innermost running module; ``"<loss>"`` outside of the model.
        operation: what ran there, as torch calls it.
        line: the user's ``file:line``; empty where no frame is the user's.
        backward: whether it ran in the backward pass (of the operation that is named).
        by: the innermost function of this library between the user and the operation; empty where there is none.
    """

    path: str
    operation: str
    line: str = ""
    backward: bool = False
    by: str = ""

    @property
    def site(self) -> str:
        """Module path and operation, as findings name them.

        Example:
            >>> Place("head", "log", "train.py:3", backward=True).site
            'head (log, backward)'
        """
        return f"{self.path} ({self.operation}{', backward' if self.backward else ''})"

    @property
    def by_library(self) -> bool:
        """Whether this library called it, and not the user."""
        return bool(self.by) and self.by not in _PASSING

    @property
    def at(self) -> str:
        """``" at file:line"`` where that is known."""
        return f" at {self.line}" if self.line else ""


def calling_line() -> tuple[str, str]:
    """The user's line that is running, and the innermost function of ``mixprec.nn`` before it."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    by = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PRODUCTS):
            # Those further out are the regions that every module runs in; another mode's observer stands before them.
            by = by or ("" if frame.f_code.co_name == "__torch_dispatch__" else frame.f_code.co_name)
        elif not is_inner(name):
            return f"{_short(name)}:{frame.f_lineno}", by
        frame = frame.f_back
    return "", by


def raising_line(trace: TracebackType | None) -> str:
    """The user's innermost line that an exception passed through."""
    line = ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not is_inner(name):
            line = f"{_short(name)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def is_inner(file: str) -> bool:
    """Whether a file is torch's, this library's or no file."""
    return file.startswith((_TORCH, _PACKAGE, "<")) or file.endswith(f"{os.sep}contextlib.py")


def _short(file: str) -> str:
    """A path below the packages or below the working folder where it is there."""
    if _SITE_PACKAGES in file:
        return file.rpartition(_SITE_PACKAGES)[2]
    here = os.getcwd() + os.sep
    return file.removeprefix(here) if file.startswith(here) else os.path.basename(file)
