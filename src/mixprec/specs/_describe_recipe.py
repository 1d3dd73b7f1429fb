"""What a named recipe is and where it comes from: its function's docstring, taken apart."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from ._recipes import recipe_function

# The first words of the docstring's parts, and the fields that they become; what stands before them is the definition.
_LABELS = {"Bytes": "size", "Source": "source", "Found": "finding"}


@dataclass(frozen=True, kw_only=True)
class RecipeDescription:
    """A named recipe in words, code in backquotes. Under ``python -OO``, which strips docstrings, the texts are empty.

    Attributes:
        name: of the recipe.
        definition: what it does; its first sentence stands alone.
        size: bytes that it keeps or multiplies, per element.
        source: the paper, specification or library that defines it.
        finding: what was found there or by others.
    """

    name: str
    definition: str = ""
    size: str = ""
    source: str = ""
    finding: str = ""

    @property
    def reference(self) -> str:
        """The source in a few words: its arXiv number, else who or what it is."""
        first = self.source.partition(";")[0]
        number = re.search(r"arXiv:[0-9.]*[0-9]", first)
        return number[0] if number else re.split(r" ?[,(]", first)[0]


def describe_recipe(name: str) -> RecipeDescription:
    """Tell what a named recipe is, what it costs in bytes, where it comes from and what was found.

    Args:
        name: one of ``recipe_names()``.

    Raises:
        ValueError: an unknown name.

    Example:
        >>> described = describe_recipe("mxfp8")
        >>> described.reference, described.size
        ('arXiv:2506.08027', "1.03 (8.25 bits) per element of a layer's operands.")
    """
    parts: dict[str, list[str]] = {}
    field = "definition"
    for line in (inspect.getdoc(recipe_function(name)) or "").splitlines():
        label, colon, rest = line.partition(":")
        is_label = bool(colon) and label in _LABELS
        field = _LABELS[label] if is_label else field
        parts.setdefault(field, []).append(rest if is_label else line)
    texts = {field: " ".join(" ".join(lines).split()).replace("``", "`") for field, lines in parts.items()}
    return RecipeDescription(name=name, **texts)
