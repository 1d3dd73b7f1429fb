"""One product in a candidate's casts: what it does to the result and to the weight's gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...nn import ConvolutionGeometry, StandaloneProducts
from ...specs import OPERANDS, LayerPrecision
from ._seen import Operation

#: Parts of a batch whose weight gradients are compared.
PARTS = 8
#: Of these, on how many each candidate is tried.
TRIED = 2


@dataclass(frozen=True, kw_only=True)
class Operands:
    """The operands of an operation's products, laid out as casts read them, once for all candidates.

    Attributes:
        x: input.
        weight: of it.
        g: gradient of the result.
        left: [parts, N, rows]: the gradient as wgrad's left operand; of a convolution, as it is.
        right: [parts, rows, K]: the input as wgrad's right one.
        parts: of ``left`` and ``right``.
    """

    x: Tensor
    weight: Tensor
    g: Tensor
    left: Tensor
    right: Tensor
    parts: int

    @classmethod
    def of(cls, operation: Operation, x: Tensor, weight: Tensor, g: Tensor) -> Operands:
        """All of one operation's, fp32."""
        if operation.operator == "convolution":
            x, g = x.contiguous(), g.contiguous()
            return cls(x=x, weight=weight, g=g, left=g, right=x, parts=_parts(len(x)))
        if operation.operator == "matmul":  # reduced along its second axis
            x, weight = x.contiguous(), weight if weight.dim() < 2 else weight.mT.contiguous().mT
        if not operation.has_weight or (operation.operator == "matmul" and weight.dim() > 2):
            return cls(x=x, weight=weight, g=g, left=g, right=x, parts=1)
        parts = _parts(g[..., 0].numel())
        left, right = (t.reshape(parts, -1, t.shape[-1]).mT.contiguous() for t in (g, x))
        return cls(x=x, weight=weight, g=g, left=left, right=right.mT, parts=parts)

    def some_parts(self) -> Operands:
        """The parts that candidates' weight gradients are measured on: a few tell how errors add up over all."""
        if self.parts <= TRIED:
            return self
        count = TRIED * self.left.shape[0] // self.parts
        return replace(self, left=self.left[:count], right=self.right[:count], parts=TRIED)


class CastProducts:
    """The products of an operation under one precision; ``None``: in fp32.

    Args:
        precision: of a candidate; without delayed scales.
        seed: of random roundings.
        device: of the operands.
    """

    def __init__(self, precision: LayerPrecision | None, seed: int, device: torch.device) -> None:
        backward = None if precision is None else _weight_gradient_as_forward(precision)
        self._forward, self._backward = (
            StandaloneProducts("measure_scores", p, "fp32", seed, device, torch.float32) for p in (precision, backward)
        )

    def forward(self, operation: Operation, operands: Operands) -> Tensor:
        """The result, fp32, without a bias."""
        x, weight = operands.x, operands.weight
        if operation.operator == "linear":
            return self._forward.linear(x, weight, None)
        if operation.operator == "matmul":
            return self._forward.matmul(x, weight)
        return self._forward.convolution(x, weight, None, geometry_of(operation))

    def weight_gradients(self, operation: Operation, operands: Operands) -> Tensor:
        """[parts, ...]: the weight's gradients of equal parts of the batch (of rows, or images).

        A stack of matrices is one part: whose rows are whose only the model knows.
        """
        if operation.operator == "convolution":
            return self._of_convolution(operation, operands)
        if operation.operator == "matmul" and operands.weight.dim() > 2:
            return self._backward.matmul(operands.g.mT, operands.x)[None]
        return self._backward.matmul(operands.left, operands.right)

    def _of_convolution(self, operation: Operation, operands: Operands) -> Tensor:
        """In one product: parts lie side by side as groups of channels, each with a copy of the weight of its own."""
        parts, geometry = operands.parts, geometry_of(operation)
        x, g = (t.unflatten(0, (parts, -1)).transpose(0, 1).flatten(1, 2) for t in (operands.right, operands.left))
        w = operands.weight.detach().expand(parts, *operands.weight.shape).flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            y = self._forward.convolution(x, w, None, geometry._replace(groups=geometry.groups * parts))
        return torch.autograd.grad(y, w, g)[0].unflatten(0, (parts, -1))


def _parts(rows: int) -> int:
    """How many equal parts rows, or images, are split into."""
    return math.gcd(rows, PARTS)


def geometry_of(operation: Operation) -> ConvolutionGeometry:
    """Of a convolution."""
    if operation.geometry is None:
        raise RuntimeError(f"{operation.site}: a convolution came without its geometry")
    return operation.geometry


def _weight_gradient_as_forward(precision: LayerPrecision) -> LayerPrecision:
    """The casts of wgrad's operands as those of a forward product: the gradient is its input, the input its weight."""
    return LayerPrecision(
        fprop_input=precision.wgrad_grad_output,
        fprop_weight=precision.wgrad_input,
        accumulator=precision.accumulator,
    )


def precision_for(precision: LayerPrecision | None, kind: str) -> LayerPrecision | None:
    """A candidate's precision as a site of a kind can have it, and as a measurement without a history can.

    Convolutions have no transforms: along their positions one would need a copy of the input for every tap. A delayed
    scale is taken as the current one that it is an estimate of.
    """
    if precision is None:
        return None
    changed = {}
    for name in OPERANDS:
        cast = precision.operand(name)
        if cast is None:
            continue
        cast = replace(cast, delayed=None)
        changed[name] = replace(cast, transform=0, signs="none") if kind.startswith("Conv") else cast
    return replace(precision, **changed)
