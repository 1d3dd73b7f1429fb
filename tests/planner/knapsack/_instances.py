"""Small instances of the search, and what trying every choice gives for them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from mixprec.planner import KEEP, Option

QUANTITIES = ("seconds", "loss", "bytes")


@st.composite
def instances(draw: st.DrawFn) -> list[Option]:
    """Up to five groups with up to four candidates, many of them equal in something."""
    options: list[Option] = []
    few = st.integers(0, 6)
    for group in range(draw(st.integers(1, 5))):
        options.append(
            Option(group=f"g{group}", candidate=KEEP, loss=0.0, seconds=draw(few) + 4.0, bytes=draw(few) + 3)
        )
        for other in range(draw(st.integers(0, 3))):
            values = {"loss": draw(few) / 8 + draw(few) / 3, "seconds": draw(few) / 3, "bytes": draw(few)}
            options.append(Option(group=f"g{group}", candidate=f"c{other}", **values))
    return options


def every_choice(options: Sequence[Option], limits: Mapping[str, float]) -> Iterator[dict[str, float]]:
    """The sums of every choice within the limits."""
    groups: dict[str, list[Option]] = {}
    for option in options:
        if option.allowed:
            groups.setdefault(option.group, []).append(option)
    for chosen in itertools.product(*groups.values()):
        sums = {name: math.fsum(option.of(name) for option in chosen) for name in QUANTITIES}
        if all(sums[name] <= most for name, most in limits.items()):
            yield sums
