"""How many bytes of tensors are alive while a step runs: storages, as they are made and let go."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...kernels import has_no_values
from ...monitor import tensors_in as all_tensors_in
from ._cpu_scratch import cpu_scratch
from ._recurrent_workspace import workspace_bytes
from ._storage_ids import storage_of
from ._traffic import tensors_in

_RECURRENT = torch.ops.aten.mkldnn_rnn_layer.default


class LiveBytes(TorchDispatchMode):
    """Sums the storages that operators inside have made and nobody has let go yet.

    What an operator's kernel allocates for itself and gives back is not seen but on a CPU, where it is worked out.

    Args:
        is_cpu: whether the step is to run on a CPU.

    Attributes:
        now: bytes that are alive.
        most: the most so far.
    """

    def __init__(self, *, is_cpu: bool) -> None:
        super().__init__()
        self._is_cpu = is_cpu
        self.now = self.most = 0
        self._alive: dict[int, weakref.ref[Any]] = {}
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self._know([*tensors_in(args), *tensors_in(list(kwargs.values()))])
        out = func(*args, **kwargs)
        if func is _RECURRENT and has_no_values(args[0]):
            workspace = args[0].new_empty(workspace_bytes(args), dtype=torch.uint8)
            out = (*out[:3], workspace)
        for t in tensors_in(out):
            self._note(t)
        if self._is_cpu:
            self.most = max(self.most, self.now + cpu_scratch(func, args, kwargs, out))
        return out

    def _know(self, tensors: Iterable[Tensor]) -> None:
        """What an operator takes was there before it, whoever made it."""
        for t in tensors:
            key = storage_of(t)
            if key not in self._known and key not in self._alive:
                self._known[key] = weakref.ref(t.untyped_storage(), lambda _, key=key: self._known.pop(key, None))

    def _note(self, t: Tensor) -> None:
        key = storage_of(t)
        if key in self._known or key in self._alive:
            return
        storage = t.untyped_storage()
        n = storage.nbytes()
        self._alive[key] = weakref.ref(storage, lambda _: self._let_go(key, n))
        self.now += n
        self.most = max(self.most, self.now)

    def _let_go(self, key: int, n: int) -> None:
        if self._alive.pop(key, None) is not None:
            self.now -= n


def planned_storages(values: object) -> dict[tuple[str, int], int]:
    """The distinct storages of all tensors in containers, with their bytes; those of tensors without values too."""
    storages = {storage_of(t): t.untyped_storage().nbytes() for t in all_tensors_in(values)}
    return {("", key): n for key, n in storages.items() if n}
