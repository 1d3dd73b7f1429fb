"""The one wording of "unknown name" errors, with an offer of the nearest known name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, got: object, known: Iterable[str]) -> ValueError:
    """Make the error for a name that nobody registered; the caller raises it.

    Args:
        kind: what was looked up, e.g. ``"format"``.
        got: the name that was asked for; what is no text is told as it is.
        known: the names that exist, in the order in which they are to be listed.

    Returns:
        A ``ValueError`` that names what was got, what was expected and the nearest name, if one is near, or two that
        are very near.

    Example:
        >>> print(unknown_name("format", "e4m4", ["e5m2", "e4m3"]))
        unknown format 'e4m4': expected one of e5m2, e4m3; did you mean 'e4m3'?
    """
    names = list(known)
    near = difflib.get_close_matches(str(got).lower(), names, n=2, cutoff=0.8)
    near = near or difflib.get_close_matches(str(got).lower(), names, n=1, cutoff=0.6)
    offer = "; did you mean " + " or ".join(f"'{name}'" for name in near) + "?" if near else ""
    return ValueError(f"unknown {kind} '{got}': expected one of {', '.join(names)}{offer}")
