"""Who sees every GEMM of a step: a dispatch mode that counts FLOPs and knows which site ran them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ._autograd import is_in_backward
from ._flop_counts import flops_of
from ._module_stack import ROOT, ModuleStack
from ._node_origins import NodeOrigins, next_number, tensors_of
from ._uncompiled import is_watched_by_compiler, uncompiled

#: Names of the GEMMs of a forward pass; seen during a backward pass they are recomputed.
FORWARD_GEMMS = ("fprop", "attention")
_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@dataclass(frozen=True)
class GemmKey:
    """What one row of an audit is about."""

    site: str
    gemm: str
    formats: tuple[str, str]
    engine: str
    covered: bool
    recomputed: bool


@dataclass(frozen=True)
class _Product:
    """A product that one of the conversion's own functions runs."""

    site: str
    gemm: str
    formats: tuple[str, str]
    engine: str


@dataclass(frozen=True)
class LeftToTorch:
    """A call whose products the recipe leaves to torch.

    Attributes:
        dtype: of the operands, as operators see them.
        format: whose values those are.
        engine: that multiplies them.
    """

    dtype: str
    format: str
    engine: str


@dataclass(frozen=True)
class _Origin:
    """Where an autograd node came from: the module that ran the forward pass, and the call that was left to torch."""

    site: str
    call: LeftToTorch | None


class GemmObserver(TorchDispatchMode):
    """Sums the FLOPs of a step's GEMMs by site, operand formats and engine.

    A conversion's own functions say which GEMM they are running. One that nobody speaks of is told by the path of the
    module that was running; it is uncovered unless it ran inside a call that the recipe leaves to torch.

    Args:
        model: the root, whose paths name the GEMMs.
        leaves_all: whether the recipe leaves everything to torch in fp32.
    """

    def __init__(self, model: nn.Module, *, leaves_all: bool) -> None:
        super().__init__()
        self._leaves_all = leaves_all
        self.flops: defaultdict[GemmKey, int] = defaultdict(int)
        self.is_on = self.was_on = False
        self._running: list[_Product | LeftToTorch] = []
        self._modules = ModuleStack(model)
        self._origins = NodeOrigins[_Origin]()
        self._spans: list[tuple[int, int]] = []  # of the numbers of nodes that were made while it was on
        self._entered = 0
        self._uncompiled: AbstractContextManager[Any] = nullcontext()

    @contextmanager
    def product(self, site: str, gemm: str, formats: tuple[str, str], engine: str) -> Generator[None]:
        """What runs inside belongs to ``site`` (empty: the running module) and takes operands of these formats."""
        self._running.append(_Product(site, gemm, formats, engine))
        try:
            yield
        finally:
            self._running.pop()

    @contextmanager
    def left_to_torch(self, call: LeftToTorch) -> Generator[None]:
        """Products inside are left to torch by the recipe, with those of their backward pass."""
        self._running.append(call)
        try:
            yield
        finally:
            self._running.pop()

    def __enter__(self) -> GemmObserver:
        self.is_on = self.was_on = True
        self._entered = next_number()
        self._uncompiled = uncompiled()
        self._uncompiled.__enter__()
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        self.is_on = False
        self._spans.append((self._entered, next_number()))
        self._modules.__exit__(*exc)
        super().__exit__(*exc)
        self._uncompiled.__exit__(*exc)

    @contextmanager
    def _again(self) -> Generator[None]:
        """The mode on inside its own handling of an operator."""
        super().__enter__()
        try:
            yield
        finally:
            super().__exit__(None, None, None)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled():
            # No autograd stands before this mode then, which would have taken linear, matmul, ... apart.
            with self._again():
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        # Of any operator: the gradients of many that are no products multiply matrices.
        self._origins.note(args, self._origin_here)
        out = func(*args, **kwargs)
        flops = flops_of(func, args, kwargs, out)
        if flops is not None:
            self._record(func, args, flops)
        return out

    def _record(self, func: Any, args: tuple[Any, ...], flops: int) -> None:
        running, backward = self._innermost, is_in_backward()
        if isinstance(running, _Product):
            recomputed = backward and running.gemm in FORWARD_GEMMS
            site = running.site or self.path()
            key = GemmKey(site, running.gemm, running.formats, running.engine, True, recomputed)
        else:
            key = self._key_of_torchs_own(func, args, backward)
        if flops:
            self.flops[key] += flops

    @property
    def _innermost(self) -> _Product | LeftToTorch | None:
        return self._running[-1] if self._running else None

    def _key_of_torchs_own(self, func: Any, args: tuple[Any, ...], backward: bool) -> GemmKey:
        # A backward pass runs without gradients, what it recomputes runs with them.
        recomputed = backward and torch.is_grad_enabled()
        origin = self._origin_in_backward() if backward and not recomputed else self._origin_here()
        formats, gemm = _formats(args), func._overloadpacket.__name__
        call = origin.call
        if call is not None and formats == (call.dtype, call.dtype):
            return GemmKey(origin.site, gemm, (call.format, call.format), call.engine, True, recomputed)
        asked = self._leaves_all and formats == ("fp32", "fp32")
        return GemmKey(origin.site, gemm, formats, "native" if asked else "torch", asked, recomputed)

    def _origin_in_backward(self) -> _Origin:
        return self._origins.of_running() or _Origin(ROOT, None)

    def _origin_here(self) -> _Origin:
        call = self._innermost
        return _Origin(self.path(), call if isinstance(call, LeftToTorch) else None)

    def path(self) -> str:
        """The path of the innermost running module."""
        return self._modules.path

    def made_in(self, number: int) -> str | None:
        """The path of the module that made a node of the graph, by the node's number; ``None``: none of the model's."""
        first = next((first for first, end in self._spans if first <= number < end), None)
        if first is None:
            return None
        origin = self._origins.of(number, first)
        return ROOT if origin is None else origin.site


def _formats(args: tuple[Any, ...]) -> tuple[str, str]:
    names = [str(t.dtype).removeprefix("torch.") for t in tensors_of(args)[:2]]
    short = [_SHORT.get(name, name) for name in names]
    return short[0], short[-1]


def observing(observer: GemmObserver | None) -> AbstractContextManager[Any]:
    """``observer`` turned on inside, unless there is none or it is on already; an evaluation is no step's pass.

    Between two graphs of a compiled caller it stays off: the compiler would give up what it sees a mode on.
    """
    if observer is None or observer.is_on or not torch.is_grad_enabled() or is_watched_by_compiler():
        return nullcontext()
    return observer
