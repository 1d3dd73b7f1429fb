"""The list of recipes in docs/recipes.md, made from what the recipes say of themselves.

`python -m tests.docs.write_recipes` writes it anew.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator

from mixprec.specs import OPERANDS, LayerPrecision, Recipe, Rule, describe_recipe, recipe, recipe_names
from tests.architecture import tree

PAGE = tree.ROOT / "docs" / "recipes.md"
BEGIN, END = "<!-- begin: python -m tests.docs.write_recipes -->", "<!-- end -->"
WIDTH = 120
KEPT = {
    "true": "16-bit weights without a master",
    "stochastic": "bf16 weights, rounded stochastically",
    "kahan": "bf16 weights with a compensation",
    "split": "bf16 weights with the 16 bits that they lack",
}


def listed() -> str:
    """What stands between the two marks."""
    return "\n\n".join([BEGIN, *(section(name) for name in recipe_names()), END])


def section(name: str) -> str:
    """One recipe: its definition, its casts, its bytes, its source and what was found."""
    described = describe_recipe(name)
    items = list(rule_lines(recipe(name).rules))
    items += [f"Bytes: {described.size}", f"Source: {linked(described.source)}", f"Found: {linked(described.finding)}"]
    lines = [fill(item, "- ") for item in items]
    return "\n".join([f"### `{name}`", "", fill(described.definition, ""), "", *kept(recipe(name)), *lines])


def kept(made: Recipe) -> list[str]:
    """What is not the default: compute dtype, loss scale, weights."""
    facts = [f"compute dtype `{made.compute_dtype}`"] if made.compute_dtype != "fp32" else []
    facts += [f"loss scale {made.loss_scale.kind}"] if made.loss_scale.kind != "none" else []
    facts += [KEPT[made.weights]] if made.weights in KEPT else []
    return [f"- Settings: {', '.join(facts)}."] if facts else []


def rule_lines(rules: Iterable[Rule]) -> Iterator[str]:
    """Whom each rule is for, and their casts; types that get the same share a line."""
    for what, alike in itertools.groupby(rules, key=lambda rule: (rule.precision, rule.type is None, who_is_met(rule))):
        types = ", ".join(f"`{rule.type}`" for rule in alike)
        precision, _, who = what
        casts = "the compute dtype" if precision is None else casts_line(precision)
        yield f"{who or f'Layers of type {types}'}: {casts}."


def who_is_met(rule: Rule) -> str:
    if rule.last_blocks is not None:
        return f"The last {100 * rule.last_blocks:g} % of the blocks"
    return "The head" if rule.head else "" if rule.type else "Every other layer"


def casts_line(precision: LayerPrecision) -> str:
    casts = [precision.operand(name) for name in OPERANDS]
    words = ["the compute dtype" if cast is None else f"`{cast}`" for cast in casts]
    if precision.is_uniform:
        return f"{words[0]} for every operand"
    pairs = zip(("fprop", "dgrad", "wgrad"), words[::2], words[1::2], strict=True)
    return "; ".join(f"{gemm} {left}" + (f" x {right}" if right != left else "") for gemm, left, right in pairs)


def linked(text: str) -> str:
    return re.sub(r"arXiv:([0-9.]*[0-9])", r"[arXiv:\1](https://arxiv.org/abs/\1)", text)


def fill(text: str, mark: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=mark,
        subsequent_indent=" " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )


def renewed(page: str) -> str:
    """The page with its list as it must be."""
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    return before + listed() + after


def main() -> None:
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
