"""Who sees every GEMM of a step: a dispatch mode that counts FLOPs and knows which site ran them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ._autograd import is_in_backward
from ._module_stack import ROOT, ModuleStack

_aten = torch.ops.aten
_FLASH = _aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_BACKWARD = _aten._scaled_dot_product_flash_attention_for_cpu_backward


#: Names of the GEMMs of a forward pass; seen during a backward pass they are recomputed.
FORWARD_GEMMS = ("fprop", "attention")


@dataclass(frozen=True)
class GemmKey:
    """What one row of an audit is about."""

    site: str
    gemm: str
    formats: tuple[str, str]
    engine: str
    covered: bool
    recomputed: bool


class GemmObserver(TorchDispatchMode):
    """Sums the FLOPs of a step's GEMMs by site, operand formats and engine.

    A conversion's own functions announce the GEMM that they are about to run. One that nobody announced is told by
    the path of the module that was running; it is uncovered unless it ran inside a call that the recipe leaves to torch.

    Args:
        model: the root, whose paths name the GEMMs.
        leaves_all: whether the recipe leaves everything to torch in fp32.
    """

    def __init__(self, model: nn.Module, *, leaves_all: bool) -> None:
        super().__init__()
        self._leaves_all = leaves_all
        self._plain_calls = 0
        self.flops: defaultdict[GemmKey, int] = defaultdict(int)
        self.is_on = self.was_on = False
        self._announced: tuple[str, str, tuple[str, str], str] | None = None
        self._modules = ModuleStack(model)
        # Where each autograd node came from: its sequence number to the path of the module that ran the forward pass,
        # and whether that was in a call that the recipe leaves to torch.
        self._origins: dict[int, tuple[str, bool]] = {}

    def announce(self, site: str, gemm: str, formats: tuple[str, str], engine: str) -> None:
        """The next GEMM belongs to ``site`` (empty: the running module) and takes operands of these formats."""
        self._announced = (site, gemm, formats, engine)

    @contextmanager
    def plain_call(self) -> Generator[None]:
        """Products inside are left to torch by the recipe."""
        self._plain_calls += 1
        try:
            yield
        finally:
            self._plain_calls -= 1

    def tell(self, gemm: str, format: str, engine: str, flops: int) -> None:
        """Count products that no operator shows, inside a fused kernel of the running module."""
        self.flops[GemmKey(self.path(), gemm, (format, format), engine, True, is_in_backward())] += flops

    def __enter__(self) -> GemmObserver:
        self.is_on = self.was_on = True
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        self.is_on = False
        self._modules.__exit__(*exc)
        super().__exit__(*exc)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        flops = _flops(func, args, kwargs, out)
        if flops:
            self._record(func, args, flops)
        return out

    def _record(self, func: Any, args: tuple[Any, ...], flops: int) -> None:
        announced, self._announced = self._announced, None
        backward = is_in_backward()
        if announced is None:
            dtypes = [str(a.dtype).removeprefix("torch.") for a in args if isinstance(a, torch.Tensor)]
            names = [{"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}.get(d, d) for d in dtypes[:2]]
            formats = (names[0], names[-1])
            # A backward pass runs without gradients, what it recomputes runs with them.
            recomputed = backward and torch.is_grad_enabled()
            path, is_plain = self._origin_of_unannounced(args, backward and not recomputed)
            asked = formats == ("fp32", "fp32") and (self._leaves_all or is_plain)
            key = GemmKey(
                path, func._overloadpacket.__name__, formats, "native" if asked else "torch", asked, recomputed
            )
        else:
            site, gemm, formats, engine = announced
            forward = gemm in FORWARD_GEMMS
            key = GemmKey(site or self.path(), gemm, formats, engine, True, forward and backward)
        self.flops[key] += flops

    def _origin_of_unannounced(self, args: tuple[Any, ...], backward: bool) -> tuple[str, bool]:
        if backward:
            node = torch._C._current_autograd_node()  # pyright: ignore[reportPrivateUsage]  # no public spelling
            number = getattr(node, "_sequence_nr", None)  # none inside a hook, which is no node
            return (ROOT, False) if number is None else self._origins.get(number(), (ROOT, False))
        origin = self.path(), self._plain_calls > 0
        if torch.is_grad_enabled() and any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            # The node of the operation that is running has just taken its number.
            self._origins[torch.autograd._get_sequence_nr() - 1] = origin  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        return origin

    def path(self) -> str:
        """The path of the innermost running module."""
        return self._modules.path


def _flops(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    packet = getattr(func, "_overloadpacket", None)
    if packet is _FLASH:
        q, k, v = args[:3]
        return 2 * math.prod(q.shape[:3]) * k.shape[2] * (q.shape[3] + v.shape[3])
    if packet is _FLASH_BACKWARD:
        q, k, v = args[1:4]
        # Five products: the scores again, then the gradients of v, the scores, q and k.
        return 2 * math.prod(q.shape[:3]) * k.shape[2] * (3 * q.shape[3] + 2 * v.shape[3])
    counter: Callable[..., int] | None = flop_registry.get(packet)
    return 0 if counter is None else counter(*args, **kwargs, out_val=out)


def observing(observer: GemmObserver | None) -> AbstractContextManager[Any]:
    """``observer`` turned on inside, unless there is none or it is on already."""
    return nullcontext() if observer is None or observer.is_on else observer
