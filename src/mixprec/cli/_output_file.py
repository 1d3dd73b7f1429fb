"""An output file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

STDOUT = Path("-")


class OutputFile:
    """Where a command writes a file that is asked for before its content is known.

    Entered before the work begins, so that a place that cannot be written is told at once. Written beside the target
    and moved there: an error or Ctrl-C leaves what was there before.

    Args:
        path: the file; ``-`` is standard output.

    Raises:
        OSError: on entering, if the file cannot be written; with its name.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.json"
        >>> with OutputFile(path) as output:
        ...     output.write("{}")
        >>> path.read_text()
        '{}'
    """

    def __init__(self, path: Path) -> None:
        self._path, self._text = path, ""
        # A device or a pipe is written to, not replaced; a link stays one.
        self._direct = path == STDOUT or (path.exists() and not path.is_file() and not path.is_dir())
        self._target = path if self._direct else path.resolve()
        self._beside = self._target.with_name(f".{self._target.name}.{os.getpid()}.new")

    def __enter__(self) -> Self:
        if self._direct:
            return self
        try:
            if self._target.exists():
                self._target.open("ab").close()
            self._beside.open("xb").close()
        except OSError as error:
            raise self._told(error) from None
        return self

    def write(self, text: str) -> None:
        """Say what the file is to hold."""
        self._text = text

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._place()
        except OSError as failure:
            raise self._told(failure) from None
        finally:
            if not self._direct:
                self._beside.unlink(missing_ok=True)

    def _place(self) -> None:
        if self._path == STDOUT:
            sys.stdout.write(self._text)
        elif self._direct:
            self._path.write_text(self._text, encoding="utf-8")
        else:
            self._beside.write_text(self._text, encoding="utf-8", newline="")
            os.replace(self._beside, self._target)

    def _told(self, error: OSError) -> OSError:
        """The same error under the name that the user knows."""
        return OSError(error.errno, error.strerror, str(self._path))
