"""Which sites decide together: those that read the same input, or share a weight."""

from __future__ import annotations

from collections.abc import Hashable, Iterable


class Grouping:
    """Sites joined by what they share, in order of appearance."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}
        self._first: dict[Hashable, str] = {}

    def add(self, site: str, shared: Iterable[Hashable]) -> None:
        """A site, and what it would share with any other that has it."""
        self._parent.setdefault(site, site)
        for key in shared:
            other = self._first.setdefault(key, site)
            self._join(other, site)

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The sites of each group."""
        found: dict[str, list[str]] = {}
        for site in self._parent:
            found.setdefault(self._root(site), []).append(site)
        return tuple(tuple(sites) for sites in found.values())

    def _root(self, site: str) -> str:
        while self._parent[site] != site:
            site = self._parent[site]
        return site

    def _join(self, one: str, other: str) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            order = list(self._parent)
            first, second = sorted((one, other), key=order.index)
            self._parent[second] = first
