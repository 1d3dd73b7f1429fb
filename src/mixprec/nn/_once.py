"""Backward passes that exist once: what cannot be differentiated again says so, in words that help."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

_R = TypeVar("_R")
_WAY_OUT = (
    "Keep that part as torch computes it: give convert, prepare or initialize only the modules outside of it, call "
    "restore() on the session or the conversion, or put it under torch.autocast(device_type, enabled=False), inside "
    "the model's forward or the region; docs/support.md lists what is not done"
)
_UNNAMED = "a product of a region, or of a converted model's root,"
_TWICE = (
    "In 16 bits a model that is not converted has them (a gradient penalty, say): run it in a region of "
    "mixprec.compat.torch_amp.autocast."
)


class OnceFunction(torch.autograd.Function):
    """A function of a converted layer: its backward pass is decorated with ``once``."""


class _SecondTime(torch.autograd.Function):
    """Its inputs as they are; differentiating through it is refused."""

    @staticmethod
    def forward(ctx: Any, where: str, *values: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.where = where
        return tuple(v if v is None else v.view_as(v) for v in values)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> NoReturn:
        raise RuntimeError(
            f"mixprec: {ctx.where} got a second derivative (create_graph=True), which the casts of a converted layer "
            f"do not have. {_TWICE} {_WAY_OUT}"
        )


def once(backward: Callable[..., _R]) -> Callable[..., _R]:
    """A backward pass that runs without gradients; what it gives refuses to be differentiated, naming the site.

    The context has the site's name, or "", in ``where``.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *grad_outputs: Any) -> Any:
        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return backward(ctx, *grad_outputs)
        with torch.no_grad():
            gradients: Any = backward(ctx, *grad_outputs)
        values = [g if g is None else g.detach().requires_grad_() for g in gradients]
        return _SecondTime.apply(_named(ctx), *values)

    return wrapper


def _named(ctx: Any) -> str:
    """The product of a context in words: its layer's path and class, or the path of the module that called it."""
    site: Any = getattr(ctx, "site", None)
    kind = getattr(site, "kind", "")
    return f"layer '{ctx.where}' ({kind})" if kind and site.name == ctx.where else ctx.where or _UNNAMED


def refuse_transforms(where: str, *tensors: Tensor | None) -> None:
    """Refuse ``torch.func``'s transforms and forward-mode differentiation around a converted layer.

    Raises:
        RuntimeError: one is running.
    """
    if torch.compiler.is_compiling():
        return
    if torch._C._are_functorch_transforms_active():  # pyright: ignore[reportPrivateUsage]  # as autograd.Function asks
        raise RuntimeError(
            f"mixprec: {where or _UNNAMED} was called under torch.func (vmap, grad, jacrev, "
            f"...): a cast's scale spans all examples, and no transform knows of it. {_WAY_OUT}"
        )
    if forward_ad._current_level >= 0 and any(_has_tangent(t) for t in tensors):  # pyright: ignore[reportPrivateUsage]
        raise RuntimeError(
            f"mixprec: {where or _UNNAMED} was called under forward-mode differentiation "
            f"(torch.autograd.forward_ad), which its casts do not have. {_WAY_OUT}"
        )


def _has_tangent(t: Tensor | None) -> bool:
    return t is not None and forward_ad.unpack_dual(t).tangent is not None
