"""What a product of the forward pass is called: its site, and what a rule's ``type`` asks for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ...nn import ROOT, ModuleStack, is_layer_type, projections_of
from ._operator_products import OperatorProduct
from ._storage_ids import storage_of

#: Functions that multiply queries by keys, and then values.
_ATTENTIONS = (F.scaled_dot_product_attention, F.multi_head_attention_forward)
_COPIES = frozenset(("clone", "_to_copy", "index", "index_select"))
_CONVOLUTIONS = ("convolution", "convolution_backward")


class AttentionCalls(TorchFunctionMode):
    """Knows whether an attention function is running, and which of its two products comes next."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._seen = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _ATTENTIONS:
            return func(*args, **(kwargs or {}))
        with self._running():
            return func(*args, **(kwargs or {}))

    def part(self) -> str:
        """``"qk"`` and ``"pv"`` in turn inside an attention, else nothing."""
        if not self._depth:
            return ""
        self._seen += 1
        return "qk" if self._seen % 2 else "pv"

    @contextmanager
    def _running(self) -> Generator[None]:
        self._depth, self._seen = self._depth + 1, 0
        try:
            yield
        finally:
            self._depth -= 1


class Places:
    """Names the products of a model's forward pass as rules name them.

    Args:
        model: the root, not converted.
        modules: knows which of its modules is running.
        attention: knows whether an attention is.
    """

    def __init__(self, model: nn.Module, modules: ModuleStack, attention: AttentionCalls) -> None:
        self._modules, self._attention = modules, attention
        self._parameters = {storage_of(p): p for p in model.parameters()}
        self._copies: list[Tensor] = []  # kept, so that no other storage gets the address of one

    def follow(self, operator: str, args: tuple[Any, ...], out: Any) -> None:
        """A copy of a weight, or matrices chosen from one, stay that weight."""
        if operator not in _COPIES or not args or not isinstance(args[0], Tensor) or not isinstance(out, Tensor):
            return
        parameter = self._parameters.get(storage_of(args[0]))
        if parameter is not None and out.dim() > 1:
            self._parameters[storage_of(out)] = parameter
            self._copies.append(out)

    def name(self, product: OperatorProduct, operator: str) -> tuple[str, str]:
        """(site, kind) of a product that the running module multiplies.

        Args:
            product: of an operator.
            operator: its name.
        """
        module, path = self._modules.running, self._modules.path
        if module is not None and _is_torchs_own(module):
            return path, type(module).__name__
        weight, parameter = self._weight_of(product)
        if weight is not None and parameter is not None:
            kind = _kind_with_weight(weight, parameter, operator)
            return self._projection(module, parameter, path), kind
        if operator in _CONVOLUTIONS:
            return path, f"Conv{product.right.dim() - 2}d"
        kind = product.part or self._attention.part() or "matmul"
        return (kind if path == ROOT else f"{path}.{kind}"), kind

    def _weight_of(self, product: OperatorProduct) -> tuple[Tensor | None, nn.Parameter | None]:
        for operand in (product.right, product.left):
            parameter = self._parameters.get(storage_of(operand))
            if parameter is not None and operand.dim() > 1:
                return operand, parameter
        return None, None

    @staticmethod
    def _projection(module: nn.Module | None, parameter: nn.Parameter, path: str) -> str:
        """An ``nn.MultiheadAttention`` has two places of its own."""
        if not isinstance(module, nn.MultiheadAttention):
            return path
        into, out = projections_of("" if path == ROOT else path, module)
        return out if parameter is module.out_proj.weight else into


def _is_torchs_own(module: nn.Module) -> bool:
    """Whether a module's products are those of its class, whatever function they come from."""
    if isinstance(module, nn.MultiheadAttention):
        return False
    return is_layer_type(type(module)) or type(module).__module__.startswith("torch.nn.modules.")


def _kind_with_weight(weight: Tensor, parameter: nn.Parameter, operator: str) -> str:
    if operator in _CONVOLUTIONS:
        return f"Conv{weight.dim() - 2}d"
    return "grouped_mm" if parameter.dim() == 3 else "Linear"
