"""Optional packages: loaded where they are used, and named with how to get them where they are missing."""

from __future__ import annotations

from typing import Any

from ._expression import Value, value_of


def built(value: Value, *, what: str, package: str, install: str) -> Any:
    """Build a value of an optional package.

    Args:
        value: of the package.
        what: needs it.
        package: that is needed.
        install: how to get it.

    Raises:
        ImportError: it is not installed, with how to get it; or its release lacks a name.

    Example:
        >>> from mixprec.integrations._expression import Name
        >>> built(Name(module="no_such", name="x"), what="This", package="no_such", install="pip install no_such")
        Traceback (most recent call last):
        ImportError: This needs no_such, which is not installed: pip install no_such
    """
    try:
        return value_of(value)
    except ModuleNotFoundError as error:
        missing = error.name or package
        if missing.partition(".")[0] == package.partition(".")[0] and "." not in missing:
            raise ImportError(f"{what} needs {package}, which is not installed: {install}", name=missing) from error
        raise ImportError(
            f"{what} needs {missing}, which the installed {package} has not: another release of it does; {install}",
            name=missing,
        ) from error
    except AttributeError as error:
        raise ImportError(
            f"{what} needs {error.name}, which the installed {package} has not: another release of it does; {install}"
        ) from error
