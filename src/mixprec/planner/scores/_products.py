"""One product in a candidate's casts: what it does to the result and to the weight's gradient."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
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
#: Operands of a forward product.
_FORWARD = ("fprop_input", "fprop_weight")


@dataclass(frozen=True, kw_only=True)
class Operands:
    """The operands of a forward product, laid out as casts read them, once for all candidates.

    Attributes:
        x: input.
        weight: of it.
    """

    x: Tensor
    weight: Tensor

    @classmethod
    def of(cls, operation: Operation, x: Tensor, weight: Tensor) -> Operands:
        """All of one operation's, fp32."""
        if operation.operator == "convolution":
            return cls(x=x.contiguous(), weight=weight)
        if operation.operator == "matmul":  # reduced along its second axis
            return cls(x=x.contiguous(), weight=weight if weight.dim() < 2 else weight.mT.contiguous().mT)
        return cls(x=x, weight=weight)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """The operands of the weight's gradients of equal parts of a batch, laid out once for all candidates.

    Attributes:
        left: [parts, N, rows]: the gradient of the result; of a convolution, or a stack of matrices, as it is.
        right: [parts, rows, K]: the input.
        count: of them.
    """

    left: Tensor
    right: Tensor
    count: int

    @classmethod
    def of(cls, operation: Operation, operands: Operands, g: Tensor) -> Parts:
        """All parts of a batch: of its rows, or images; a stack of matrices is one."""
        if operation.operator == "convolution":
            return cls(left=g.contiguous(), right=operands.x, count=_parts(len(g)))
        if _is_stack(operation, operands.weight):
            return cls(left=g, right=operands.x, count=1)
        count = _parts(g[..., 0].numel())
        left, right = (t.reshape(count, -1, t.shape[-1]).mT.contiguous() for t in (g, operands.x))
        return cls(left=left, right=right.mT, count=count)

    def some(self) -> Parts:
        """Those that candidates' weight gradients are measured on: a few tell how errors add up over all."""
        if self.count <= TRIED:
            return self
        length = TRIED * self.left.shape[0] // self.count
        return Parts(left=self.left[:length], right=self.right[:length], count=TRIED)


class CastProducts:
    """The products of an operation under one precision; ``None``: in fp32.

    Args:
        precision: of a candidate; without delayed scales.
        seed: of random roundings.
        device: of the operands.
    """

    def __init__(self, precision: LayerPrecision | None, seed: int, device: torch.device) -> None:
        self._precision, self._seed, self._device = precision, seed, device
        self._forward = self._standalone(precision)

    @functools.cached_property
    def _backward(self) -> StandaloneProducts:
        return self._standalone(None if self._precision is None else _weight_gradient_as_forward(self._precision))

    def _standalone(self, precision: LayerPrecision | None) -> StandaloneProducts:
        return StandaloneProducts("measure_scores", precision, "fp32", self._seed, self._device, torch.float32)

    def forward(self, operation: Operation, operands: Operands) -> Tensor:
        """The result, fp32, without a bias."""
        x, weight = operands.x, operands.weight
        if operation.operator == "linear":
            return self._forward.linear(x, weight, None)
        if operation.operator == "matmul":
            return self._forward.matmul(x, weight)
        return self._forward.convolution(x, weight, None, geometry_of(operation))

    def weight_gradients(self, operation: Operation, weight: Tensor, parts: Parts) -> Tensor:
        """[parts, ...]: the weight's gradients of equal parts of the batch.

        A stack of matrices is one part: whose rows are whose only the model knows.
        """
        if operation.operator == "convolution":
            return self._of_convolution(operation, weight, parts)
        if _is_stack(operation, weight):
            return self._backward.matmul(parts.left.mT, parts.right)[None]
        return self._backward.matmul(parts.left, parts.right)

    def _of_convolution(self, operation: Operation, weight: Tensor, parts: Parts) -> Tensor:
        """In one product: parts lie side by side as groups of channels, each with a copy of the weight of its own."""
        count, geometry = parts.count, geometry_of(operation)
        x, g = (t.unflatten(0, (count, -1)).transpose(0, 1).flatten(1, 2) for t in (parts.right, parts.left))
        w = weight.detach().expand(count, *weight.shape).flatten(0, 1).requires_grad_()
        with torch.enable_grad():
            y = self._forward.convolution(x, w, None, geometry._replace(groups=geometry.groups * count))
        return torch.autograd.grad(y, w, g)[0].unflatten(0, (count, -1))


class Casts:
    """The products under every candidate, each made once: for all batches, or one if it draws random bits.

    Args:
        precisions: of the candidates, by name.
        gradients: whether products of weights' gradients are asked for.

    Attributes:
        precisions: as given.
    """

    def __init__(self, precisions: Mapping[str, LayerPrecision], *, gradients: bool) -> None:
        self.precisions = precisions
        operands = OPERANDS if gradients else _FORWARD
        self._random = {name for name, p in precisions.items() if any(_is_random(p, operand) for operand in operands)}
        self._made: dict[tuple[str, bool, torch.device, int], CastProducts] = {}

    def of(self, name: str, operation: Operation, device: torch.device, seed: int) -> CastProducts:
        """Those of a candidate; of ``""`` without casts."""
        key = name, operation.operator == "convolution", device, seed if name in self._random else 0
        if key not in self._made:
            precision = precision_for(self.precisions.get(name), operation.kind)
            self._made[key] = CastProducts(precision, seed, device)
        return self._made[key]


def _is_random(precision: LayerPrecision, operand: str) -> bool:
    cast = precision.operand(operand)
    return cast is not None and cast.is_random


def _is_stack(operation: Operation, weight: Tensor) -> bool:
    """Whether there is a weight for each matrix of the input."""
    return operation.operator == "matmul" and weight.dim() > 2


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
