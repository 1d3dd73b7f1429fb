"""Which values of a metric are better, where its name alone tells."""

from __future__ import annotations

import re

from ._types import Better

#: Words in a metric's name that make lower values the better ones.
_LOWER = frozenset({"loss", "perplexity", "ppl"})


def better_by_name(metric: str) -> Better | None:
    """``"lower"`` for a loss or a perplexity: a name with the word ``loss``, ``perplexity`` or ``ppl``; else ``None``.

    Words end where letters do; of a slice (``"loss/letters"``) the metric's name counts.

    Example:
        >>> [better_by_name(name) for name in ("val_loss", "eval.loss/rare", "perplexity", "accuracy", "lossy")]
        ['lower', 'lower', 'lower', None, None]
    """
    words = re.split(r"[^a-z]+", metric.partition("/")[0].lower())
    return None if _LOWER.isdisjoint(words) else "lower"
