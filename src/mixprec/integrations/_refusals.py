"""Sites that an engine cannot run as a recipe asks, told all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_SHOWN = 8


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A site, and why an engine cannot run it as asked."""

    site: str
    why: str


def refuse(engine: str, recipe: str, refusals: Sequence[Refusal], offer: str) -> None:
    """Raise where anything is refused, with every reason and its sites.

    Args:
        engine: what it is called.
        recipe: the recipe's name.
        refusals: of all sites.
        offer: what the engine has, and what to do.

    Raises:
        ValueError: there are refusals.

    Example:
        >>> refuse("torchao", "mine", [Refusal(site="conv", why="it is a Conv2d")], "Keep it wide.")
        Traceback (most recent call last):
        ValueError: recipe 'mine' cannot be run by torchao as it is: conv: it is a Conv2d. Keep it wide.
    """
    if not refusals:
        return
    by_reason: dict[str, list[str]] = {}
    for refusal in refusals:
        by_reason.setdefault(refusal.why, []).append(refusal.site)
    told = "; ".join(f"{_few(sites)}: {why}" for why, sites in by_reason.items())
    raise ValueError(f"recipe '{recipe}' cannot be run by {engine} as it is: {told}. {offer}")


def _few(sites: Sequence[str]) -> str:
    more = len(sites) - _SHOWN
    return ", ".join(sites[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
