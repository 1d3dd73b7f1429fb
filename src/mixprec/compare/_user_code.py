"""Failures in a user's code, told in one line with the place where they happened."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class WorkloadError(ValueError):
    """A workload that cannot be loaded or run; the message names the file, the line and the reason."""


def describe(error: BaseException, file: Path | None = None) -> str:
    """The exception in one line, and the deepest line of ``file`` that it passed through.

    Example:
        >>> describe(KeyError("x"))
        "KeyError: 'x'"
    """
    text = " ".join(str(error).split())
    text = text if len(text) <= 300 else text[:297] + "..."
    line = _line_in(error, file) if file is not None else None
    place = f"{file}, line {line}: " if line is not None else ""
    return f"{place}{type(error).__name__}: {text}" if text else f"{place}{type(error).__name__}"


def _line_in(error: BaseException, file: Path) -> int | None:
    name = str(file.absolute())
    if isinstance(error, SyntaxError) and error.filename == name:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == name]
    return lines[-1] if lines else None


@contextmanager
def calling(what: str, file: Path | None) -> Generator[None]:
    """Turn an exception inside the block into a ``WorkloadError`` that says what failed and where.

    A built-in workload has no ``file``; its own ``ValueError`` and ``OSError`` already teach and pass unchanged.
    """
    try:
        yield
    except WorkloadError:
        raise
    except (Exception, SystemExit) as error:
        if file is None:
            raise
        raise WorkloadError(f"{what} failed: {describe(error, file)}") from error
