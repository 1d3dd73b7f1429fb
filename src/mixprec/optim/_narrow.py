"""Bringing a model's fp32 parameters to 16 bits, in place, with the way back."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import Parameter

from ..kernels import has_no_values
from ._kept_weights import KeptWeights
from ._stored import refuse_sharded
from ._wide_gradients import HALF_DTYPES


def narrow_parameters(model: nn.Module, dtype: torch.dtype) -> NarrowedParameters:
    """Keep the fp32 parameters of a model in 16 bits.

    They stay the same objects, so that an optimizer that holds them holds them still. Parameters of modules with
    running statistics (batch norms) stay fp32, for torch wants those and the statistics, which need fp32, in one dtype;
    so do buffers, and parameters of other dtypes.

    Args:
        model: changed in place.
        dtype: ``torch.bfloat16`` or ``torch.float16``; parameters are rounded to nearest, ties to even.

    Returns:
        The handle: which ones, their exact values for a ``KeptWeights``, and the way back.

    Raises:
        ValueError: another dtype; a parameter that is sharded, or on the meta device; an fp16 overflow. Nothing was
            changed then.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> narrowed = narrow_parameters(model, torch.bfloat16)
        >>> narrowed.names, model.weight.dtype
        (('weight', 'bias'), torch.bfloat16)
        >>> narrowed.restore()
        >>> model.weight.dtype
        torch.float32
    """
    if dtype not in HALF_DTYPES:
        raise ValueError(f"narrow_parameters: dtype is {dtype}, expected torch.bfloat16 or torch.float16")
    chosen = _to_narrow(model)
    for name, param in chosen.items():
        if param.is_meta:
            raise ValueError(
                f"narrow_parameters: {name} is on the meta device, which has no values to round: materialize the model "
                "first: model.to_empty(device=...), load its weights, then prepare"
            )
    values = {param: param.detach().to(dtype) for param in chosen.values()}
    for name, param in chosen.items():
        refuse_sharded(param, f"narrow_parameters ({name})", "narrow the model before fully_shard")
        if not has_no_values(param) and bool((values[param].isinf() & param.isfinite()).any()):
            raise ValueError(
                f"narrow_parameters: {name} has values above {torch.finfo(dtype).max:g}, the largest of {dtype}: use "
                "torch.bfloat16"
            )
    return NarrowedParameters(chosen, values)


class NarrowedParameters:
    """Parameters that were fp32 and have 16 bits now, made by ``narrow_parameters``.

    Attributes:
        names: in the model's order.
    """

    def __init__(self, params: dict[str, Parameter], values: dict[Parameter, Tensor]) -> None:
        self.names = tuple(params)
        self._params = params
        self._exact = {param: param.detach() for param in params.values()}
        for param, value in values.items():
            _replace(param, value)

    def start(self, kept: KeptWeights) -> None:
        """Give the exact fp32 values to those parameters that ``kept`` keeps, and forget them here.

        Masters and split weights begin as the fp32 model; compensated ones within 16 significant bits of it.
        """
        for param in kept.parameters():
            value = self._exact.pop(param, None)
            if value is not None:
                kept.load_full_weight(param, value)

    def forget(self) -> None:
        """Let go of the exact values, which take four bytes each until a keeping has them."""
        self._exact.clear()

    def restore(self, *kept: KeptWeights) -> None:
        """Make the parameters fp32 again: their full values where one of ``kept`` has them, otherwise their 16 bits.

        Those that nobody has changed since they were narrowed, and whose exact values are still here, get them. Call it
        before ``kept.restore()``.
        """
        holders = {param: weights for weights in kept for param in weights.parameters()}
        for param in self._params.values():
            exact = self._exact.get(param)
            if exact is None or not torch.equal(exact.to(param.dtype), param):
                exact = holders[param].full_weight(param) if param in holders else param.detach().float()
            _replace(param, exact)
        self.forget()


def _to_narrow(model: nn.Module) -> dict[str, Parameter]:
    wide = {
        id(param)
        for module in model.modules()
        if getattr(module, "running_mean", None) is not None
        for param in module.parameters(recurse=False)
    }
    return {n: p for n, p in model.named_parameters() if p.dtype == torch.float32 and id(p) not in wide}


def _replace(param: Parameter, value: Tensor) -> None:
    """Give a parameter other values and another dtype; its gradient goes along."""
    grad, param.grad = param.grad, None
    param.data = value
    if grad is not None:
        param.grad = grad.to(value.dtype)
