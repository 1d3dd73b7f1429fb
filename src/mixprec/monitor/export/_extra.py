"""Optional packages: loaded where they are used, and named with how to get them where they are missing."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def load_extra(module: str, *, extra: str, what: str) -> ModuleType:
    """Import a package that mixprec does not require.

    Args:
        module: its dotted name.
        extra: mixprec's extra that brings it.
        what: who needs it.

    Raises:
        ImportError: it is not installed; with what to install.

    Example:
        >>> load_extra("no_such_package", extra="nothing", what="This example")
        Traceback (most recent call last):
            ...
        ImportError: This example needs no_such_package, which is not installed: pip install "mixprec[nothing]"
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        raise ImportError(
            f'{what} needs {missing}, which is not installed: pip install "mixprec[{extra}]"', name=missing
        ) from error
