"""The ``state_dict`` of a model with masters: fp32, the masters' own bits, both ways."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter

from ...optim import HALF_DTYPES
from ._keeping import AsTheyAre


class FullState:
    """Hooks of a model's modules: what is saved of a 16-bit parameter is its master, and a master is what is loaded.

    A copy of the model (an average, say) has no masters: it saves its 16 bits, widened.
    """

    def __init__(self, keepings: Iterable[AsTheyAre]) -> None:
        self._of: dict[Parameter, AsTheyAre] = {}
        for keeping in keepings:
            self._of |= dict.fromkeys(keeping.parameters(), keeping)

    def __deepcopy__(self, memo: dict[int, Any]) -> FullState:
        return self

    def __reduce__(self) -> Any:
        return FullState, ((),)

    def watch(self, model: nn.Module) -> None:
        """Register the hooks on every module, so that a part's own ``state_dict`` is full too."""
        for module in model.modules():
            module.register_state_dict_post_hook(self)
            module.register_load_state_dict_pre_hook(self._load)

    def __call__(self, module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            if prefix + name not in state or tensor.dtype not in HALF_DTYPES:
                continue
            full = self._full_weight(tensor)
            state[prefix + name] = tensor.detach().float() if full is None else full

    def _full_weight(self, tensor: Tensor) -> Tensor | None:
        keeping = self._of.get(tensor) if isinstance(tensor, Parameter) else None
        return None if keeping is None or not isinstance(tensor, Parameter) else keeping.full_weight(tensor)

    def _load(self, module: nn.Module, state: dict[str, Any], prefix: str, *others: Any) -> None:
        for name, param in module.named_parameters(recurse=False):
            value, keeping = state.get(prefix + name), self._of.get(param)
            if keeping is None or not isinstance(value, Tensor) or value.shape != param.shape:
                continue
            if value.is_floating_point() and value.dtype not in HALF_DTYPES:  # torch loads what has 16 bits
                keeping.load_full_weight(param, value)
