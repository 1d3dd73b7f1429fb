"""``torch.einsum`` as the batched products it stands for."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._matmul import matmul
from ._site import Site


def einsum(args: tuple[Any, ...], site: Site) -> Tensor:
    """``torch.einsum(*args)`` with operands in a site's casts, else in the compute dtype.

    Two operands that contract at least one index become one batched product. Without a contraction nothing is
    summed (an outer product): it stays in the operands' dtype. Anything else (one operand, three or more,
    repeated or ellipsis indices) runs in fp32 from rounded operands and is rounded at the end.
    """
    operands: list[Tensor] = list(args[1:])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    equation = args[0].replace(" ", "") if isinstance(args[0], str) else ""
    parsed = _parse(equation) if len(operands) == 2 else None
    if parsed is not None and not (set(parsed[0]) & set(parsed[1])) - set(parsed[2]):
        with torch.autocast(site.state.device_type, enabled=False):
            wide = torch.promote_types(operands[0].dtype, operands[1].dtype)
            return torch.einsum(equation, *(t.to(wide) for t in operands))
    if parsed is not None and _same_sizes(parsed, operands[0], operands[1]):
        return _product(parsed, operands[0], operands[1], site)
    with torch.autocast(site.state.device_type, enabled=False):
        rounded = [t.to(site.state.compute_dtype).float() for t in operands]
        return torch.einsum(args[0], *rounded).to(site.state.compute_dtype)


def _parse(equation: str) -> tuple[str, str, str] | None:
    """The labels of a two-operand equation, or ``None`` where it is not a plain one."""
    left, arrow, out = equation.partition("->")
    labels = left.split(",")
    if not arrow or len(labels) != 2 or "." in equation:
        return None
    a, b = labels
    if any(len(set(t)) != len(t) for t in (a, b, out)) or not set(out) <= set(a) | set(b):
        return None
    return a, b, out


def _same_sizes(labels: tuple[str, str, str], a: Tensor, b: Tensor) -> bool:
    """Whether shared labels have equal sizes (einsum would broadcast a one)."""
    sizes = dict(zip(labels[0], a.shape, strict=True))
    return all(sizes.get(label, n) == n for label, n in zip(labels[1], b.shape, strict=True))


def _product(labels: tuple[str, str, str], a: Tensor, b: Tensor, site: Site) -> Tensor:
    a_labels, b_labels, out = labels
    a, a_labels = _without_lonely(a, a_labels, b_labels + out)
    b, b_labels = _without_lonely(b, b_labels, a_labels + out)
    batch = [c for c in out if c in a_labels and c in b_labels]
    rows = [c for c in out if c in a_labels and c not in b_labels]
    columns = [c for c in out if c in b_labels and c not in a_labels]
    summed = [c for c in a_labels if c in b_labels and c not in out]
    size = {**dict(zip(a_labels, a.shape, strict=True)), **dict(zip(b_labels, b.shape, strict=True))}

    def shaped(t: Tensor, own: str, *groups: list[str]) -> Tensor:
        order = [own.index(c) for group in groups for c in group]
        lengths = [_count(size, group) for group in groups]
        return t.permute(order).reshape(lengths)

    y = matmul(shaped(a, a_labels, batch, rows, summed), shaped(b, b_labels, batch, summed, columns), site)
    y = y.reshape([size[c] for c in (*batch, *rows, *columns)])
    order = [*batch, *rows, *columns]
    return y.permute([order.index(c) for c in out])


def _without_lonely(t: Tensor, own: str, others: str) -> tuple[Tensor, str]:
    """``t`` summed over the labels that stand nowhere else."""
    lonely = [i for i, c in enumerate(own) if c not in others]
    if not lonely:
        return t, own
    return t.float().sum(lonely), "".join(c for c in own if c in others)


def _count(size: dict[str, int], group: list[str]) -> int:
    n = 1
    for label in group:
        n *= size[label]
    return n
