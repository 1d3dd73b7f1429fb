"""The entry point: commands, and how their errors are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

from cyclopts import App, CycloptsError

from . import (
    _analyze,
    _calibrate,
    _check,
    _compare,
    _doctor,
    _drill,
    _emit,
    _estimate,
    _explain,
    _formats,
    _hardware,
    _init,
    _plan,
    _recipes,
    _report,
    _table,
    _train,
    _watch,
)

_COMMANDS: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "train": _train.command,
        "drill": _drill.command,
        "compare": _compare.command,
        "plan": _plan.command,
        "explain": _explain.command,
        "emit": _emit.command,
        "estimate": _estimate.command,
        "hardware": _hardware.command,
        "calibrate": _calibrate.command,
        "check": _check.command,
        "analyze": _analyze.command,
        "init": _init.command,
        "report": _report.command,
        "table": _table.command,
        "watch": _watch.command,
        "recipes": _recipes.command,
        "formats": _formats.command,
        "doctor": _doctor.command,
    }
)
#: Exit statuses: a mistake of the user's; a run that failed; stopped by Ctrl-C.
USER_ERROR, FAILED, INTERRUPTED = 2, 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    A mistake of the user's is one line on stderr and status 2. Anything unexpected keeps its traceback.

    Args:
        arguments: the words after ``mixprec``; ``None`` takes those of the process.

    Example:
        >>> main(["formats", "no-such-format"])
        2
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = _app()(words, exit_on_error=False, print_error=False, result_action="return_value")
    except BrokenPipeError:
        # The reader of a pipe (`| head`) has gone; keep Python from telling it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except CycloptsError as error:
        text = str(error)  # which may end in an ellipsis
        return _tell(f"{text if text.endswith('...') else text.rstrip('.')}; see {_help_for(words)}")
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
        return _tell(named)
    except ValueError as error:
        return _tell(str(error))
    except KeyboardInterrupt:
        print("mixprec: stopped", file=sys.stderr)
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _app() -> App:
    app = App(
        name="mixprec",
        help="Train any PyTorch model in the lowest precision that it can stand.",
        version=_version,
        help_format="markdown",
    )
    for name, command in _COMMANDS.items():
        app.command(command, name=name)
    return app


def _tell(message: str) -> int:
    print(f"mixprec: {' '.join(message.split())}", file=sys.stderr)
    return USER_ERROR


def _help_for(words: list[str]) -> str:
    return f"`mixprec {words[0]} --help`" if words and words[0] in _COMMANDS else "`mixprec --help`"


def _version() -> str:
    try:
        return f"mixprec {version('mixprec')}"
    except PackageNotFoundError:
        return "mixprec (source tree)"
