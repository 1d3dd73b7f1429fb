"""Who sees every operator of a training step: products by site, and what else moves bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ...nn import ROOT, ModuleStack, NodeOrigins, is_in_backward, next_number, running_number
from .._inventory import Product, Traffic
from ._operator_products import OperatorProduct, products_of
from ._places import AttentionCalls, Places
from ._roles import ForwardProduct, backward_role
from ._traffic import bytes_moved, is_free

#: Where operators are told that run in no module of the model.
LOSS, OPTIMIZER = "<loss>", "<optimizer>"
_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
_LOSSES = ("nll_loss_forward", "nll_loss2d_forward")


class StepTrace(TorchDispatchMode):
    """Notes the products and the traffic of the step that runs inside.

    Args:
        model: the root, not converted.

    Attributes:
        tokens: targets of the first cross-entropy, ``None`` where there was none.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.tokens: int | None = None
        self._modules, self._attention = ModuleStack(model), AttentionCalls()
        self._places = Places(model, self._modules, self._attention)
        self._origins = NodeOrigins[str]()
        self._forward: defaultdict[int, list[ForwardProduct]] = defaultdict(list)
        self._products: dict[Product, int] = {}
        self._traffic: dict[tuple[str, str, str], list[int]] = {}
        self._is_updating = False

    @property
    def products(self) -> tuple[Product, ...]:
        """In order of first appearance, equal ones together."""
        return tuple(replace(product, calls=calls) for product, calls in self._products.items())

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """In order of first appearance, by site, operator and pass."""
        return tuple(
            Traffic(site=site, operation=name, pass_=pass_, read=read, written=written, calls=calls)
            for (site, name, pass_), (read, written, calls) in self._traffic.items()
        )

    @contextmanager
    def update(self) -> Generator[None]:
        """What runs inside is the optimizer's."""
        self._is_updating = True
        try:
            yield
        finally:
            self._is_updating = False

    def __enter__(self) -> StepTrace:
        self._modules.__enter__()
        self._attention.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._attention.__exit__(*exc)
        self._modules.__exit__(*exc)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._origins.note(args, self._site)
        out = func(*args, **kwargs)
        name = func._overloadpacket.__name__
        self._places.follow(name, args, out)
        if name in _LOSSES and self.tokens is None:
            self.tokens = args[1].numel()
        products = products_of(func, args, kwargs, out)
        if products is not None:
            for product in products:
                self._note_product(product, name)
        elif not is_free(func):
            moved = bytes_moved(func, args, kwargs, out)
            if any(moved):
                self._note_traffic(name, *moved)
        return out

    def _note_product(self, product: OperatorProduct, operator: str) -> None:
        recomputed = is_in_backward() and torch.is_grad_enabled()
        if is_in_backward() and not recomputed:
            self._note_backward(product, operator)
            return
        site, kind = self._places.name(product, operator)
        self._add(product, site, kind, product.gemm or "fprop", recomputed=recomputed)
        number = next_number() - 1
        self._forward[number].append(ForwardProduct.of(product, site, kind))

    def _note_backward(self, product: OperatorProduct, operator: str) -> None:
        found = self._forward.get(running_number() or -1, [])
        if product.gemm is not None:
            same = [f for f in found if not product.part or f.kind == product.part] or found
            site, kind = (same[0].site, same[0].kind) if same else (self._backward_site(), operator)
            self._add(product, site, kind, product.gemm)
            return
        told = backward_role(found, product)
        if told is None:
            self._add(product, self._backward_site(), operator, operator)
        else:
            self._add(product, told[0].site, told[0].kind, told[1])

    def _add(self, product: OperatorProduct, site: str, kind: str, gemm: str, *, recomputed: bool = False) -> None:
        key = Product(
            site=site,
            kind=kind,
            gemm=gemm,
            batch=product.batch,
            m=product.m,
            n=product.n,
            k=product.k,
            left_dtype=short_dtype(product.left),
            right_dtype=short_dtype(product.right),
            recomputed=recomputed,
        )
        self._products[key] = self._products.get(key, 0) + 1

    def _note_traffic(self, name: str, read: int, written: int) -> None:
        if self._is_updating:
            key = OPTIMIZER, name, "update"
        elif is_in_backward():
            key = self._backward_site(), name, "backward"
        else:
            key = self._site(), name, "forward"
        sums = self._traffic.setdefault(key, [0, 0, 0])
        sums[0], sums[1], sums[2] = sums[0] + read, sums[1] + written, sums[2] + 1

    def _site(self) -> str:
        return LOSS if self._modules.running is None else self._modules.path

    def _backward_site(self) -> str:
        return self._origins.of_running() or (self._site() if torch.is_grad_enabled() else ROOT)


def short_dtype(t: Tensor) -> str:
    """A dtype's short name."""
    name = str(t.dtype).removeprefix("torch.")
    return _SHORT.get(name, name)
