"""One product in a candidate's casts: what it does to the result and to the weight's gradient."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor

from ...nn import ConvolutionGeometry, StandaloneProducts
from ...specs import OPERANDS, LayerPrecision
from ._seen import Operation

#: Parts of a batch whose weight gradients are compared.
PARTS = 4


class CastProducts:
    """The products of an operation under one precision; ``None``: in fp32.

    Args:
        precision: of a candidate; without delayed scales.
        random: seeds, one for each draw.
    """

    def __init__(self, precision: LayerPrecision | None, random: itertools.count[int]) -> None:
        self._precision, self._random = precision, random
        self._backward = None if precision is None else _weight_gradient_as_forward(precision)
        casts = [] if precision is None else [precision.operand(name) for name in OPERANDS]
        self._is_random = any(cast is not None and cast.is_random for cast in casts)
        self._kept: dict[bool, StandaloneProducts] = {}

    def forward(self, operation: Operation, x: Tensor, weight: Tensor) -> Tensor:
        """The result, fp32, without a bias."""
        products = self._products(x, is_backward=False)
        if operation.operator == "linear":
            return products.linear(x, weight, None).float()
        if operation.operator == "matmul":
            return products.matmul(x, weight).float()
        return products.convolution(x, weight, None, geometry_of(operation)).float()

    def weight_gradients(self, operation: Operation, g: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        """[parts, ...]: the weight's gradients of equal parts of the batch (of rows, or images).

        A stack of matrices is one part: whose rows are whose only the model knows.
        """
        if operation.operator == "convolution":
            return self._of_convolution(operation, g, x, weight)
        if operation.operator == "matmul" and weight.dim() > 2:
            return self._products(x, is_backward=True).matmul(g.mT, x).float()[None]
        parts = math.gcd(g[..., 0].numel(), PARTS)
        a, b = (t.reshape(parts, -1, t.shape[-1]) for t in (g, x))
        return self._products(x, is_backward=True).matmul(a.mT, b).float()

    def _of_convolution(self, operation: Operation, g: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        gradients: list[Tensor] = []
        parts = math.gcd(g.shape[0], PARTS)
        w = weight.detach().requires_grad_()
        for g_part, x_part in zip(g.chunk(parts), x.chunk(parts), strict=True):
            with torch.enable_grad():
                y = self._products(x, is_backward=False).convolution(x_part, w, None, geometry_of(operation))
            gradients += torch.autograd.grad(y, w, g_part.to(y.dtype))
        return torch.stack(gradients).float()

    def _products(self, x: Tensor, *, is_backward: bool) -> StandaloneProducts:
        made = self._kept.get(is_backward)
        if made is None:
            precision = self._backward if is_backward else self._precision
            made = StandaloneProducts("measure_scores", precision, "fp32", next(self._random), x.device, x.dtype)
            if not self._is_random:  # else every call draws anew
                self._kept[is_backward] = made
        return made


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
