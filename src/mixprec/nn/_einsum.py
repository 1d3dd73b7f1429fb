"""``torch.einsum`` as the batched products that it stands for."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._product_sites import is_castable, multiplied, refuse_transformed
from ._site import ConversionState, Site
from ._telling import left_to_torch
from ._weights import is_weight, side_of_weight

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True)
class _Labelled:
    """A tensor whose dimensions have one-letter names."""

    values: Tensor
    labels: str

    def size(self) -> dict[str, int]:
        return dict(zip(self.labels, self.values.shape, strict=True))


def einsum(state: ConversionState, args: tuple[Any, ...]) -> Tensor | None:
    """``torch.einsum(*args)`` with products in the casts that rules give them, else in the compute dtype.

    Operands are multiplied in pairs, in torch's own order. Two that contract an index become one batched product;
    without a contraction nothing is summed (an outer product), which stays in the operands' dtype.

    Returns:
        ``None`` where it is left to torch: fp32 without casts, other dtypes and classes, or what torch refuses.
    """
    given = args[1:] if isinstance(args[0], str) else args
    operands = list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)
    equation = args[0] if isinstance(args[0], str) else None
    tensors = [t for t in operands if isinstance(t, Tensor)]
    if not (tensors and is_castable(*tensors)) or not (state.is_16bit or state.functions):
        return None
    refuse_transformed(state, *tensors)
    labelled = _labelled(equation, operands)
    if labelled is None:
        return None
    terms, out = labelled
    if not state.is_16bit and not any(_site(state, a, b) for i, a in enumerate(terms) for b in terms[i + 1 :]):
        return None
    with torch.autocast(state.device_type, enabled=False):
        return _contracted(state, terms, out)


def _contracted(state: ConversionState, terms: list[_Labelled], out: str) -> Tensor:
    if len(terms) == 1:
        values = terms[0].values.to(state.compute_dtype).float()
        return _alone(_Labelled(values, terms[0].labels), out).values.to(state.compute_dtype)
    for first, second in _order(
        f"{','.join([t.labels for t in terms])}->{out}", *[tuple(t.values.shape) for t in terms]
    ):
        right, left = terms.pop(max(first, second)), terms.pop(min(first, second))
        kept = set(out).union(*(t.labels for t in terms))
        terms.append(_pair(state, left, right, kept))
    return _alone(terms[0], out).values


def _alone(term: _Labelled, out: str) -> _Labelled:
    """Summed and permuted to ``out``: no product."""
    if term.labels == out:
        return term
    return _Labelled(torch.einsum(f"{term.labels}->{out}", term.values), out)


def _order(equation: str, *shapes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Which two of the remaining terms to multiply, step by step; the product goes to the end, as in opt_einsum."""
    if len(shapes) > 2 and torch.backends.opt_einsum.is_available() and torch.backends.opt_einsum.enabled:
        planner: Any = torch.backends.opt_einsum.get_opt_einsum()
        strategy = torch.backends.opt_einsum.strategy
        path = planner.contract_path(equation, *shapes, optimize=strategy, shapes=True)[0]
        if all(len(step) == 2 for step in path):
            return tuple((step[0], step[1]) for step in path)
    # From left to right: the product of the first two stands last, and is the next left operand.
    return ((0, 1), *((len(shapes) - 2 - i, 0) for i in range(len(shapes) - 2)))


# Planned while compiling, not traced: what torch.compiler.assume_constant_result sets.
_order._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]


def _site(state: ConversionState, a: _Labelled, b: _Labelled) -> Site | None:
    """The site of the product of two terms: a layer's where just one is a weight."""
    left, right = is_weight(a.values), is_weight(b.values)
    if left == right:
        return state.casts_of("matmul") if min(len(a.labels), len(b.labels)) > 1 else None
    weight, other = (a, b) if left else (b, a)
    features = tuple(n for label, n in weight.size().items() if label not in other.labels)
    inner = tuple(n for label, n in weight.size().items() if label in other.labels)
    # Without an index that both keep, the weight is one matrix, whatever its number of dimensions.
    return state.casts_of("Linear", (math.prod(features), math.prod(inner)))


def _pair(state: ConversionState, a: _Labelled, b: _Labelled, kept: set[str]) -> _Labelled:
    """The product of two terms, with the labels that are ``kept``."""
    site = _site(state, a, b)
    side = side_of_weight(state, a.values, b.values)
    has_weight = side != "neither"
    if side == "left":
        a, b = b, a
    a, b = _without_ones(a, b), _without_ones(b, a)
    a, b = _summed(a, kept | set(b.labels)), _summed(b, kept | set(a.labels))
    shared = [c for c in a.labels if c in b.labels]
    batch, summed = [c for c in shared if c in kept], [c for c in shared if c not in kept]
    rows, columns = [c for c in a.labels if c not in shared], [c for c in b.labels if c not in shared]
    labels = "".join((*batch, *rows, *columns))
    if not summed or (site is None and not state.is_16bit):
        wide = torch.promote_types(a.values.dtype, b.values.dtype)
        equation = f"{a.labels},{b.labels}->{labels}"
        return _Labelled(
            left_to_torch(state, torch.einsum, (equation, a.values.to(wide), b.values.to(wide)), {}), labels
        )
    if has_weight and batch and site is not None:
        site = state.casts_of("grouped_mm", (b.values.shape[-1], b.values.shape[-2])) or state.functional
    left, right = _shaped(a, batch, rows, summed), _shaped(b, batch, summed, columns)
    if not batch:
        left, right = left.squeeze(0), right.squeeze(0)
    y = multiplied(left, right, "right" if has_weight else "neither", site or state.functional)
    size = {**a.size(), **b.size()}
    return _Labelled(y.reshape([size[c] for c in labels]), labels)


def _shaped(t: _Labelled, *groups: list[str]) -> Tensor:
    """A view of three dimensions, one for each group of labels."""
    size = t.size()
    order = [t.labels.index(c) for group in groups for c in group]
    return t.values.permute(order).reshape([math.prod([size[c] for c in group]) for group in groups])


def _summed(t: _Labelled, wanted: set[str]) -> _Labelled:
    """Summed over the labels that stand nowhere else."""
    lonely = [i for i, c in enumerate(t.labels) if c not in wanted]
    if not lonely:
        return t
    return _Labelled(t.values.float().sum(lonely), "".join(c for c in t.labels if c in wanted))


def _without_ones(t: _Labelled, other: _Labelled) -> _Labelled:
    """Without the dimensions of size one that the other operand has longer: einsum broadcasts them."""
    sizes = other.size()
    ones = [i for i, c in enumerate(t.labels) if t.values.shape[i] == 1 and sizes.get(c, 1) > 1]
    if not ones:
        return t
    return _Labelled(t.values.squeeze(tuple(ones)), "".join(c for i, c in enumerate(t.labels) if i not in ones))


# --- reading an equation -----------------------------------------------------------------------------


def _labelled(equation: str | None, operands: list[Any]) -> tuple[list[_Labelled], str] | None:
    """The operands with one letter for each dimension, without repetitions; ``None`` for what torch will refuse."""
    if equation is None:
        equation, operands = _from_sublists(operands)
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        return None
    free = [c for c in _LETTERS if c not in equation]
    widths = [t.dim() - len(term.replace("...", "")) for term, t in zip(terms, operands, strict=True)]
    longest = max([0, *(w for w, term in zip(widths, terms, strict=True) if "..." in term)])
    if (
        any(w < 0 or (w > 0 and "..." not in term) for w, term in zip(widths, terms, strict=True))
        or len(free) < longest
    ):
        return None
    dots = "".join(free[:longest])
    full = [
        term.replace("...", dots[longest - w :] if "..." in term else "") for w, term in zip(widths, terms, strict=True)
    ]
    if not arrow:
        joined = "".join(full)
        output = dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots))
    output = output.replace("...", dots)
    if len(set(output)) != len(output) or not set(output) <= set("".join(full)):
        return None
    return [_diagonal(t, term) for t, term in zip(operands, full, strict=True)], output


def _diagonal(t: Tensor, labels: str) -> _Labelled:
    """A term whose labels differ: repeated ones take the diagonal."""
    once = "".join(dict.fromkeys(labels))
    return _Labelled(t if once == labels else torch.einsum(f"{labels}->{once}", t), once)


def _from_sublists(operands: list[Any]) -> tuple[str, list[Any]]:
    """``einsum(a, [0, 1], b, [1, 2], [0, 2])`` as an equation and its operands."""

    def read(labels: Sequence[Any]) -> str:
        return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)

    pairs = list(zip(operands[::2], operands[1::2], strict=False))
    equation = ",".join(read(labels) for _, labels in pairs)
    if len(operands) % 2:
        equation += "->" + read(operands[-1])
    return equation, [tensor for tensor, _ in pairs]
