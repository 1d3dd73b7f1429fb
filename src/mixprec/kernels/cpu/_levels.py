"""The instruction sets that the kernels were compiled for."""

from __future__ import annotations

from typing import Literal, get_args

from . import _native

LevelName = Literal["plain", "avx2", "avx512"]

_LEVELS: dict[LevelName, _native.Level] = {
    "plain": _native.Level.plain,
    "avx2": _native.Level.avx2,
    "avx512": _native.Level.avx512,
}


def level_names() -> tuple[LevelName, ...]:
    """The levels that this CPU and this build have, slowest first. All give the same numbers.

    Example:
        >>> level_names()[0]
        'plain'
    """
    return tuple(name for name, level in _LEVELS.items() if _native.has_level(level))


def native_level(name: LevelName | None) -> _native.Level:
    """The native level of a name; the best one for ``None``.

    Raises:
        ValueError: the name is unknown, or this CPU or this build lacks the level.

    Example:
        >>> native_level("plain") == native_level("plain")
        True
    """
    if name is None:
        return _native.cpu_level()
    if name not in level_names():
        known = get_args(LevelName)
        reason = "this CPU or this build lacks it" if name in known else f"expected one of {', '.join(known)}"
        raise ValueError(f"instruction set level {name!r}: {reason}; available here: {', '.join(level_names())}")
    return _LEVELS[name]
