"""The entry point: commands, and how their errors are told."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from cyclopts import App, CycloptsError

from . import _analyze, _check, _compare, _doctor, _estimate, _formats, _init, _recipes, _report, _watch

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
    app.command(_compare.command, name="compare")
    app.command(_check.command, name="check")
    app.command(_estimate.command, name="estimate")
    app.command(_analyze.command, name="analyze")
    app.command(_init.command, name="init")
    app.command(_report.command, name="report")
    app.command(_watch.command, name="watch")
    app.command(_recipes.command, name="recipes")
    app.command(_formats.command, name="formats")
    app.command(_doctor.command, name="doctor")
    return app


def _tell(message: str) -> int:
    print(f"mixprec: {' '.join(message.split())}", file=sys.stderr)
    return USER_ERROR


def _help_for(words: list[str]) -> str:
    commands = {"compare", "check", "estimate", "analyze", "init", "report", "watch", "recipes", "formats", "doctor"}
    return f"`mixprec {words[0]} --help`" if words and words[0] in commands else "`mixprec --help`"


def _version() -> str:
    try:
        return f"mixprec {version('mixprec')}"
    except PackageNotFoundError:
        return "mixprec (source tree)"
