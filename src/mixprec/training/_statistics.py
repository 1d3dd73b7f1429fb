"""Buffers that a training forward pass changes: a skipped step leaves them as they were."""

# Buffers are walked in every step: the modules' own tables are ten times faster than their iterators.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase  # what all such layers share

from ..monitor import ModelHook, called_modules

#: Elements up to which a buffer is copied that nothing was seen to change yet.
_LARGE = 2**20
#: Elements up to which the copy of one is kept that its first step did not change.
_SMALL = 2**12


@dataclass
class _Buffer:
    """A buffer and its copy.

    Attributes:
        tensor: what the module held when the copy was taken.
        version: of the tensor then.
        copy: its values then; none of a large buffer, or one of middling size after its first step, that nothing was
            seen to change.
        changes: whether forward passes change it; then each step takes a copy.
    """

    tensor: Tensor
    version: int
    copy: Tensor | None
    changes: bool

    def differs(self, now: Tensor | None) -> bool:
        """Whether the module holds something else now; told by values where no version tells it."""
        return not self.is_same_version(now) or self._was_written_unseen()

    def is_same_version(self, now: Tensor | None) -> bool:
        """Whether the module holds the same tensor, and nothing that torch counts has written to it."""
        return now is self.tensor and self.tensor._version == self.version

    def _was_written_unseen(self) -> bool:
        if self.copy is None:
            return False
        a, b = self.tensor, self.copy
        return not bool(((a == b) | ((a != a) & (b != b))).all())


class StatisticsKeeper:
    """Copies buffers before the first training forward pass of a step, and gives them back.

    A forward pass updates running statistics before anyone knows that the step will be skipped, and one inf in an
    activation would stay in them for good. So it is with the vectors of a spectral norm, moving averages and codebooks.
    Which buffers those are shows itself: the running statistics of torch's norm layers are copied in every step,
    another buffer of up to 2^20 elements in the first step, and in every step from the first in which it was seen to
    change. Where nothing has changed it, the copy goes after the first step if it has more than 2^12 elements (a mask,
    rotary tables): memory is not kept for constants. Writes through ``.data`` are seen in the first step only. A
    larger buffer is copied once it was seen to change.

    A hook takes the copy, on the model, on the parts of its containers and on every module that has buffers; inside a
    compiled model no copy is taken.

    Attributes:
        calls: of hooked modules in training mode.

    Example:
        >>> model = nn.BatchNorm1d(2)
        >>> keeper = StatisticsKeeper(model)
        >>> _ = model(torch.full((4, 2), torch.inf))
        >>> keeper.give_back()
        ()
        >>> model.running_mean.tolist()
        [0.0, 0.0]
    """

    def __init__(self, model: nn.Module) -> None:
        self._modules = dict(model.named_modules())
        self._buffers: dict[tuple[str, str], _Buffer] = {}
        self._unproven: list[_Buffer] = []  # larger ones that were copied and have not lived through a step
        self._is_open, self._is_first = False, True
        self.calls = 0
        owners = [m for m in self._modules.values() if m._buffers]
        hooked = {id(m): m for m in [*called_modules(model), *owners]} if owners else {}
        self._handles = [module.register_forward_pre_hook(ModelHook(self)) for module in hooked.values()]

    def __call__(self, module: nn.Module, args: Any) -> None:
        """The hook: copy once for each step, in training mode."""
        if torch.compiler.is_compiling() or not module.training:
            return
        self.calls += 1
        if not self._is_open:
            self._take()

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The copies that are there."""
        return tuple(buffer.copy for buffer in self._buffers.values() if buffer.copy is not None)

    def forget(self) -> None:
        """The step was applied."""
        if self._is_open and self._is_first:
            self._note_changes(self._changed())
        self._drop_constants()
        self._is_first = self._is_first and not self._is_open
        self._is_open = False

    @torch.no_grad()
    def give_back(self) -> tuple[str, ...]:
        """The step was skipped.

        Returns:
            Names of buffers that were changed and of which there was no copy to give back.
        """
        if not self._is_open:
            return ()
        changed, lost = self._changed(), list[str]()
        for key, buffer in changed.items():
            now = self._modules[key[0]]._buffers.get(key[1])
            is_stale = not (self._is_first or buffer.changes) and buffer.is_same_version(now)
            if buffer.copy is None or is_stale:
                lost.append(_path(key))
                continue
            # A graph in flight, of another optimizer's loss, may hold running statistics, of which it reads nothing:
            # torch's own updates of them count as no write either.
            has_statistics = _has_statistics(self._modules[key[0]])
            (buffer.tensor.data if has_statistics else buffer.tensor).copy_(buffer.copy)
            buffer.version = buffer.tensor._version
            self._modules[key[0]]._buffers[key[1]] = buffer.tensor
        lost += map(_path, self._new())
        self._note_changes(changed)
        self._drop_constants()
        self._is_first = self._is_open = False
        return tuple(lost)

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()

    @torch.no_grad()
    def _take(self) -> None:
        self._is_open = True
        for key, module, tensor in self._held():
            known = self._buffers.get(key)
            changes = (known is not None and known.changes) or _has_statistics(module)
            if known is not None and known.tensor is tensor and (changes or known.version == tensor._version):
                if changes:
                    known.copy = tensor.clone() if known.copy is None else known.copy.copy_(tensor)
                    known.version = tensor._version
                continue
            copy = tensor.clone() if changes or tensor.numel() <= _LARGE else None
            self._buffers[key] = _Buffer(tensor, tensor._version, copy, changes)
            if copy is not None and not changes and tensor.numel() > _SMALL:
                self._unproven.append(self._buffers[key])

    def _drop_constants(self) -> None:
        """At the end of a step: nothing was seen to change these, so that their versions are watched alone."""
        for buffer in self._unproven if self._is_open else ():
            if not buffer.changes and buffer.tensor._version == buffer.version:
                buffer.copy = None
        self._unproven = [] if self._is_open else self._unproven

    def _held(self) -> Iterator[tuple[tuple[str, str], nn.Module, Tensor]]:
        for name, module in self._modules.items():
            for key, tensor in module._buffers.items():
                if tensor is not None and tensor.layout == torch.strided:
                    yield (name, key), module, tensor

    def _changed(self) -> dict[tuple[str, str], _Buffer]:
        return {
            key: buffer
            for key, buffer in self._buffers.items()
            if buffer.differs(self._modules[key[0]]._buffers.get(key[1]))
        }

    def _new(self) -> list[tuple[str, str]]:
        return [key for key, _, _ in self._held() if key not in self._buffers]

    def _note_changes(self, changed: dict[tuple[str, str], _Buffer]) -> None:
        for buffer in changed.values():
            buffer.changes = True


def _path(key: tuple[str, str]) -> str:
    return ".".join(filter(None, key))


def _has_statistics(module: nn.Module) -> bool:
    return isinstance(module, _NormBase) and bool(module.track_running_stats)
