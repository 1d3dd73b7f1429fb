"""Random bits of stochastically rounded weights: a function of seed, step and parameter, so nothing of it is saved."""

from __future__ import annotations

from ..kernels import Draw

#: Keeps these draws apart from those of casts, which have the session's seed itself.
_USE = 0x5EED_0F_5EED
_PARAMETER_BITS = 24


def weight_draw(seed: int, step: int, index: int) -> Draw:
    """The draw of one parameter in one applied step; a skipped step has none.

    Args:
        seed: of the session, 64 bits.
        step: steps that were applied before this one.
        index: place of the parameter in the optimizer's groups.

    Example:
        >>> weight_draw(0, 2, 5).offset == 2 * 2**24 + 5
        True
    """
    return Draw(seed=seed ^ _USE, offset=step << _PARAMETER_BITS | index)
