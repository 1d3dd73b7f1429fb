"""What one training step does: its matrix products by site, what else moves bytes, and its parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: What the update of an optimizer is called whose step is one kernel, of a call for each parameter.
KERNEL_UPDATE = "kernel_update"


@dataclass(frozen=True, kw_only=True)
class Product:
    """The equal matrix products of one kind at one site in a step: ``[M, K] @ [K, N]``, ``batch`` of them a call.

    Attributes:
        site: module path, and what is called there for a function.
        kind: ``"Linear"``, ``"Conv2d"``, ``"qk"``, ``"matmul"``, ...: what a rule's ``type`` asks for.
        gemm: ``"fprop"``, ``"dgrad"`` or ``"wgrad"``; the operator's name for a product that no rule is about.
        batch: products in a call.
        m: rows of the result.
        n: its columns.
        k: length of the reduction.
        calls: how often it runs in a step.
        left_dtype: dtype of the left operand, e.g. ``"fp32"``.
        right_dtype: of the right one.
        recomputed: whether activation checkpointing runs it a second time.
    """

    site: str
    kind: str
    gemm: str
    batch: int = 1
    m: int
    n: int
    k: int
    calls: int = 1
    left_dtype: str = "fp32"
    right_dtype: str = "fp32"
    recomputed: bool = False

    @property
    def flops(self) -> int:
        """Of all calls; a multiply-add is two."""
        return 2 * self.calls * self.batch * self.m * self.n * self.k

    @property
    def elements(self) -> tuple[int, int, int]:
        """Elements of the left operand, the right one and the result, of all calls."""
        times = self.calls * self.batch
        return times * self.m * self.k, times * self.k * self.n, times * self.m * self.n


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Operators of one name at one site that are no matrix products.

    Attributes:
        site: module path; ``"<model>"``, ``"<loss>"`` or ``"<optimizer>"`` outside of the modules.
        operation: the operator's name.
        pass_: ``"forward"``, ``"backward"`` or ``"update"``.
        read: bytes of the operands, of all calls.
        written: bytes of the results, of all calls; of a view none.
        calls: how often it runs in a step.
    """

    site: str
    operation: str
    pass_: str
    read: int
    written: int
    calls: int


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter: its first name, the names of others that share it, its shape, its dtype's short name."""

    name: str
    also: tuple[str, ...] = ()
    shape: tuple[int, ...]
    dtype: str = "fp32"

    @property
    def elements(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """One training step of a model, as it was traced.

    Attributes:
        products: its matrix products, in order of first appearance.
        traffic: what else moves bytes.
        parameters: of the model, each once.
        samples: of the batch, ``None`` where it has no common first dimension.
        tokens: that the loss averages over, where that is known.
        notes: what was not seen, and why.
    """

    products: tuple[Product, ...]
    traffic: tuple[Traffic, ...]
    parameters: tuple[Parameter, ...]
    samples: int | None = None
    tokens: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> int:
        """Of all products of a step that are not recomputed."""
        return sum(product.flops for product in self.products if not product.recomputed)
