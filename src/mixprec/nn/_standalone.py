"""Products outside of any conversion: a site of their own for one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ._attention import AttentionArguments, attention
from ._compute_mode import active_state
from ._convolution_arguments import ConvolutionGeometry
from ._convolution_calls import convolve
from ._device import native_compute, native_here
from ._einsum import einsum
from ._function_sites import FunctionSites
from ._linear import linear
from ._passing import new_random_state
from ._product_sites import product
from ._site import STREAMS_PER_SITE, ConversionState, Site
from ._standalone_casts import Precision, casts_of_call
from ._standalone_operands import refuse_operand_dtype, refuse_operands
from ._weight_cache import NoCodes
from ._workspace import Workspace

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class _FreshMemory(Workspace):
    """Never gives memory: a call's operands may live as long as its graph, and so would their memory."""

    def take(self, slot: str, shape: Any, device: torch.device) -> None:
        """Nothing."""


class _OneSite(FunctionSites):
    """The same site for every call."""

    second_is_weight = True

    def __init__(self, site: Site) -> None:
        super().__init__()
        self._site = site

    def __bool__(self) -> bool:
        return True

    def find(self, path: str, kind: str, features: tuple[int, ...] = ()) -> Site | None:
        """The site, whatever calls."""
        return self._site


class StandaloneProducts:
    """Products in given casts, differentiable, for code that is not a converted model's.

    Args:
        name: of the function, for messages.
        precision: the casts, or one for all operands in its one-line form; ``None``: operands in the compute dtype.
        compute_dtype: ``"fp32"``, ``"bf16"`` or ``"fp16"``; ``None``: ``dtype``.
        seed: of stochastic roundings and fresh signs.
        device: of the operands.
        dtype: of the first of them.

    Raises:
        TypeError: operands of other dtypes, a precision that is none.
        ValueError: an unknown compute dtype, a text that is no cast, or a delayed scale: its history is a conversion's.
    """

    def __init__(
        self,
        name: str,
        precision: Precision,
        compute_dtype: str | None,
        seed: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        refuse_operand_dtype(name, 1, dtype)
        if compute_dtype is not None and compute_dtype not in DTYPES:
            raise ValueError(f"{name}: compute_dtype is {compute_dtype!r}, expected one of {', '.join(DTYPES)} or None")
        casts = casts_of_call(name, precision)
        self.name, self.state = name, _new_state(device, DTYPES.get(compute_dtype or "", dtype), seed)
        self._take(Site(name=name, casts=casts, stream=0, state=self.state))

    def _take(self, site: Site) -> None:
        self.site, self.state.functions = site, _OneSite(site)

    def told(self) -> StandaloneProducts:
        """Itself; whoever measures a converted model that calls it will know of its products, by the calling module."""
        running = None if torch.compiler.is_compiling() else active_state()
        if running is not None and (running.listener is not None or running.watcher is not None):
            self.state.observer, self.state.watch = running.listener, running.watcher
            self._take(replace(self.site, name=running.where()))
        return self

    def linear(self, x: Tensor, weight_NK: Tensor, bias_N: Tensor | None) -> Tensor:
        """``x @ weight.T + bias``."""
        refuse_operands(self.name, x, weight_NK)
        return linear(x, weight_NK, bias_N, self.site)

    def matmul(self, a: Tensor, b: Tensor) -> Tensor:
        """``torch.matmul(a, b)``."""
        refuse_operands(self.name, a, b)
        return self._made(product(self.state, a, b), lambda: torch.matmul(a, b))

    def einsum(self, *arguments: Any) -> Tensor:
        """``torch.einsum``, its operands behind the equation."""
        refuse_operands(self.name, *arguments[1:])
        return self._made(einsum(self.state, arguments), lambda: torch.einsum(*arguments))

    def convolution(self, x: Tensor, weight: Tensor, bias: Tensor | None, geometry: ConvolutionGeometry) -> Tensor:
        """``F.conv1d``, ``conv2d`` or ``conv3d``."""
        refuse_operands(self.name, x, weight)
        return convolve(self.site, x, weight, bias, *geometry)

    def attention(self, q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments, pv: Precision) -> Tensor:
        """Attention: the scores' product in these casts, the second product in those of ``pv``."""
        refuse_operands(self.name, q, k, v)
        second = replace(self.site, casts=casts_of_call(self.name, pv), stream=STREAMS_PER_SITE)
        qk, pv_site = (None if site.casts.is_plain else site for site in (self.site, second))
        return attention(q, k, v, arguments, self.state, qk=qk, pv=pv_site)

    def _made(self, y: Tensor | None, refused: Callable[[], Tensor]) -> Tensor:
        """A result; where there is none, torch says what is wrong with the operands."""
        return refused() if y is None else y


def _new_state(device: torch.device, dtype: torch.dtype, seed: int) -> ConversionState:
    native, native_fp8 = _natively(device, dtype)
    state = ConversionState(
        compute_dtype=dtype,
        device_type=device.type,
        native_compute=native,
        native_fp8=native_fp8,
        random=new_random_state(seed),
        weights=NoCodes(),
    )
    state.begin_alone(_FreshMemory())
    return state


def _natively(device: torch.device, dtype: torch.dtype) -> tuple[bool, bool]:
    """Whether the device multiplies the compute dtype, and FP8."""
    return native_compute(device, dtype), "fp8" in native_here(device)


# Asked, not traced: what torch.compiler.assume_constant_result sets.
_natively._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
