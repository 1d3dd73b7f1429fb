"""What differs between two recipes, field by field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from difflib import SequenceMatcher
from typing import Any

from ._layer import OPERANDS, LayerPrecision
from ._loss_scale import LossScale
from ._moments import Moments
from ._recipe import Recipe
from ._rule import Rule

_LABELS = ("name", "reason")
# What is told by its fields; the rest has a form of one line.
_IN_PARTS = (LossScale, Moments, Rule, LayerPrecision)


def recipe_differences(a: Recipe, b: Recipe) -> tuple[str, ...]:
    """Say what differs between two recipes, one line for each field.

    The name and the reason are labels, and are not compared. Rules are aligned first, so that one that was put in or
    taken out is told as such, and one that was changed by its fields.

    Args:
        a: the earlier recipe.
        b: the later one.

    Returns:
        Lines such as ``weights: master -> split``; empty where both train alike.

    Example:
        >>> from mixprec.specs import recipe
        >>> for line in recipe_differences(recipe("bf16"), recipe("fp16")):
        ...     print(line)
        compute_dtype: bf16 -> fp16
        loss_scale.kind: none -> dynamic
    """
    lines: list[str] = []
    for item in fields(Recipe):
        before, after = getattr(a, item.name), getattr(b, item.name)
        if item.name in _LABELS or before == after:
            continue
        if item.name == "rules":
            lines += _rules(before, after, "rules")
        elif item.name == "phases":
            lines += _phases(before, after)
        else:
            lines += _values(before, after, item.name)
    return tuple(lines)


def _values(before: Any, after: Any, where: str) -> Iterator[str]:
    """The fields that differ; of two precisions, the operands."""
    if before == after:
        return
    if isinstance(before, LayerPrecision) and isinstance(after, LayerPrecision) and not _are_uniform(before, after):
        for name in (*OPERANDS, "accumulator"):
            yield from _values(getattr(before, name), getattr(after, name), f"{where}.{name}")
    elif is_dataclass(before) and type(before) is type(after) and isinstance(before, _IN_PARTS):
        for item in fields(before):
            yield from _values(getattr(before, item.name), getattr(after, item.name), f"{where}.{item.name}")
    else:
        is_cast = where.split(".")[-1] in (*OPERANDS, "precision")
        yield f"{where}: {_text(before, is_cast)} -> {_text(after, is_cast)}"


def _rules(before: Sequence[Rule], after: Sequence[Rule], where: str) -> Iterator[str]:
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for what, start, end, new_start, new_end in blocks:
        old = [] if what == "equal" else list(range(start, end))
        new = [] if what == "equal" else list(range(new_start, new_end))
        while old and new and _meets_alike(before[old[0]], after[new[0]]):
            i, k = old.pop(0), new.pop(0)
            yield from _values(before[i], after[k], f"{where}[{k}]")
        yield from (f"{where}[{i}]: gone: {_rule_text(before[i])}" for i in old)
        yield from (f"{where}[{k}]: new: {_rule_text(after[k])}" for k in new)


def _phases(before: Sequence[Any], after: Sequence[Any]) -> Iterator[str]:
    for i, (old, new) in enumerate(zip(before, after, strict=False)):
        for name in ("from_step", "last", "when"):
            yield from _values(getattr(old, name), getattr(new, name), f"phases[{i}].{name}")
        if old.rules != new.rules:
            yield from _rules(old.rules, new.rules, f"phases[{i}].rules")
    for what, phases, others in (("gone", before, after), ("new", after, before)):
        for i in range(len(others), len(phases)):
            yield f"phases[{i}]: {what}: {len(phases[i].rules)} rules, {phases[i].when_text}"


def _rule_text(rule: Rule) -> str:
    """What a rule says beyond the defaults."""
    said = [
        f"{item.name}={getattr(rule, item.name)!r}"
        for item in fields(rule)
        if item.name != "precision" and getattr(rule, item.name) != getattr(Rule(), item.name)
    ]
    return f"{', '.join(said) or 'every layer'}: {_precision_text(rule.precision)}"


def _meets_alike(a: Rule, b: Rule) -> bool:
    """Whether two rules are about the same layers, by and large: one was changed into the other."""
    return (a.match, a.type, a.head, a.embeddings) == (b.match, b.type, b.head, b.embeddings)


def _are_uniform(a: LayerPrecision, b: LayerPrecision) -> bool:
    return a.is_uniform and b.is_uniform and a.accumulator == b.accumulator


def _precision_text(precision: LayerPrecision | None) -> str:
    if precision is None or precision.is_uniform:
        return _text(precision and precision.operand(OPERANDS[0]), True)
    return ", ".join(f"{name} {_text(precision.operand(name), True)}" for name in OPERANDS)


def _text(value: Any, is_cast: bool) -> str:
    if isinstance(value, LayerPrecision):
        return _precision_text(value)
    if value is None:
        return "compute dtype" if is_cast else "not said"
    return f"{value:g}" if type(value) is float else str(value)
