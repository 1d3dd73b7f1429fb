"""Sites with wider casts than the recipe gives them: from when on, and in every later phase."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from ..nn import Conversion
from ..specs import (
    OPERANDS,
    ROLES,
    LayerPrecision,
    Recipe,
    Rule,
    next_width,
    operands_of,
    places_of,
    rules_at,
    widen_precision,
    width,
)

_COMPUTE_BITS: Mapping[str, int] = MappingProxyType({"fp32": 32, "bf16": 16, "fp16": 16})
_SITE = re.compile(rf"(.*?)(?: \(({'|'.join(ROLES)})\))?")


class Widening:
    """Knows the bits that operands of some sites have at least, and what that makes of a recipe's rules.

    Args:
        conversion: of the model.
        compute_dtype: of the recipe.
    """

    def __init__(self, conversion: Conversion, compute_dtype: str) -> None:
        self._conversion, self._bits, self._dtype = conversion, _COMPUTE_BITS[compute_dtype], compute_dtype
        self._least: dict[str, dict[str, int]] = {}

    def state(self) -> dict[str, dict[str, int]]:
        """Bits at least, by site and role."""
        return {site: dict(roles) for site, roles in self._least.items()}

    def load(self, state: Mapping[str, Mapping[str, int]]) -> None:
        """Continue from a ``state()``; nothing is applied."""
        self._least = {site: dict(roles) for site, roles in state.items()}

    def ask(self, sites: Iterable[str], to: str | None) -> list[tuple[str, str]]:
        """Remember that some sites are to be wider; a refusal changes nothing.

        Args:
            sites: such as ``"blocks.3.fc (grad_output)"``; without a role, all three.
            to: step to reach, or ``None``: the next one.

        Returns:
            Those that cannot be wider, and why.

        Raises:
            ValueError: an unknown site or step.
        """
        known, bits = self._conversion.precisions(), None if to is None else width(to)
        least, told = self.state(), list[tuple[str, str]]()
        for asked in sites:
            site, roles = self._read(asked, known)
            if not places_of(site):
                told.append((asked, f"{asked or 'the model itself'} stays as it is: no rule can name it alone"))
                continue
            is_wider = False
            for role in roles:
                wanted = bits
                if wanted is None and site in known:
                    wanted = next_width(known[site], role, compute_bits=self._bits)
                if wanted is not None and site in known and wanted > least.get(site, {}).get(role, 0):
                    before = known[site]
                    if widen_precision(before, {role: wanted}, compute_bits=self._bits) != before:
                        least.setdefault(site, {})[role] = wanted
                        is_wider = True
            if not is_wider:
                told.append((asked, f"{asked} stays as it is: {self._narrowest(known.get(site), roles)}"))
        self._least = least
        return told

    def narrow(self) -> tuple[str, ...]:
        """Sites of which a cast can be wider, and which a rule can name."""
        return tuple(
            site
            for site, own in self._conversion.precisions().items()
            if places_of(site) and any(next_width(own, role, compute_bits=self._bits) is not None for role in ROLES)
        )

    def apply(self, recipe: Recipe) -> list[tuple[str, str]]:
        """Give the model a recipe's rules, with the wider casts before them.

        Returns:
            What is wider than the rules say: site and sentence.
        """
        self._conversion.apply_rules(recipe)
        if not self._least:
            return []
        before = self._conversion.precisions()
        wide = {
            site: widen_precision(before[site], roles, compute_bits=self._bits)
            for site, roles in self._least.items()
            if site in before
        }
        changed = {site: precision for site, precision in wide.items() if precision != before[site]}
        first = [rule for site, precision in changed.items() for rule in rules_at(site, precision)]
        if first:
            # A rule of the recipe that is now about nothing else is no mistake of the recipe.
            rest = [replace(rule, required=False) for rule in recipe.rules]
            rules: tuple[Rule, ...] = tuple(replace(rule, required=False) for rule in first)
            self._conversion.apply_rules(replace(recipe, rules=(*rules, *rest)))
        return [(site, _told(site, before[site], precision, self._dtype)) for site, precision in changed.items()]

    def _read(self, asked: str, known: Mapping[str, LayerPrecision]) -> tuple[str, tuple[str, ...]]:
        found = _SITE.fullmatch(asked)
        site, role = (asked, None) if found is None else (str(found[1]), found[2])
        if site not in known and site not in self._least:
            paths = {name for name, _ in self._conversion.model.named_modules()}
            if site not in paths:
                near = difflib.get_close_matches(site, [*known, *paths], n=3, cutoff=0.3) or list(known)[:3]
                raise ValueError(f"widen: no site is named '{site}', expected one such as {', '.join(near) or 'none'}")
        return site, ROLES if role is None else (role,)

    def _narrowest(self, precision: LayerPrecision | None, roles: tuple[str, ...]) -> str:
        if precision is None:
            return f"it is in the compute dtype {self._dtype}, and nothing wider is in this recipe"
        names = [name for role in roles for name in operands_of(role)]
        casts = {str(cast) for name in names if (cast := precision.operand(name)) is not None}
        return f"it has {', '.join(sorted(casts))}, which is no narrower" if casts else self._narrowest(None, roles)


def _told(site: str, before: LayerPrecision, after: LayerPrecision, dtype: str) -> str:
    changed: dict[str, list[str]] = {}
    for name in OPERANDS:
        old, new = before.operand(name), after.operand(name)
        if old != new:
            changed.setdefault(f"{old or dtype} -> {new or dtype}", []).append(name.replace("_", " ", 1))
    return f"{site}: " + "; ".join(f"{', '.join(names)} {what}" for what, names in changed.items())
