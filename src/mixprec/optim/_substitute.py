"""One 16-bit parameter and the fp32 master that an optimizer updates in its place."""

from __future__ import annotations

import math
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import Parameter

from ..kernels import Draw, StoredWeight, WeightKind, load_weight, store_weight
from ._calls import Version, version_of
from ._stored import EXTRAS, adopt_write, begin, extra_of, load_nearest


class Substitute(ABC):
    """A 16-bit parameter of the model and its fp32 master in the optimizer.

    The master's gradient is the parameter's, the same tensor, so that ``optimizer.zero_grad()``, which reaches the
    master, and ``model.zero_grad()``, which reaches the parameter, do the same.

    Attributes:
        param: the model's parameter.
        master: same shape and device, fp32.
    """

    def __init__(self, param: Parameter, master: Tensor) -> None:
        self.param = param
        self.master = Parameter(master, requires_grad=param.requires_grad)
        self.master.grad_dtype = None
        self._seen: Version | None = version_of(param)
        self._is_attached = False
        self._hook = _follow_gradient(self) if param.requires_grad else None
        self.attach_gradient()

    def attach_gradient(self) -> None:
        """Give the parameter's gradient to the master."""
        self.master.grad = self.param.grad
        self._is_attached = self.param.grad is not None

    def agree_on_cleared(self) -> None:
        """Clear a gradient on both sides that was cleared on one."""
        if self._is_attached and self.master.grad is None:
            self.param.grad = None
        self.attach_gradient()

    def adopt(self) -> bool:
        """Take over what was written to the parameter from outside; see ``KeptWeights.adopt_writes``."""
        if version_of(self.param) == self._seen:
            return False
        changed = self._adopt()
        self._seen = version_of(self.param)
        return changed

    def refuse_written(self, who: str) -> None:
        """Raise where the parameter itself was written while the optimizer was to update the master."""
        if version_of(self.param) != self._seen:
            raise RuntimeError(
                f"{who}.step() wrote to the model's own {self.param.dtype} parameter of shape "
                f"{list(self.param.shape)}, which is made from its fp32 master: it keeps a list of parameters beside "
                "its param_groups; let it read param_groups, or keep fp32 parameters (model.float())"
            )

    def bring(self) -> None:
        """Make the master hold the full weight."""
        return

    def put(self, draw: Draw) -> None:
        """Make the parameter the master's value, as it is kept."""
        self._put(draw)
        self._seen = version_of(self.param)

    def write_back(self) -> None:
        """Make the parameter the master's value again, where there is a master between steps."""
        return

    def load_full_weight(self, value: Tensor) -> None:
        """Keep an fp32 value."""
        self._load(value.detach().to(self.param.device, torch.float32))
        self._seen = version_of(self.param)

    @abstractmethod
    def full_weight(self) -> Tensor:
        """The fp32 value, fresh."""

    @abstractmethod
    def extras(self) -> dict[str, Tensor]:
        """What is kept beside the parameter."""

    @abstractmethod
    def load_extras(self, extras: Mapping[str, Tensor]) -> None:
        """Continue from saved ``extras()``."""

    def release(self) -> None:
        """Part from the master."""
        self.master.grad = None
        if self._hook is not None:
            self._hook.remove()

    @abstractmethod
    def _adopt(self) -> bool: ...

    @abstractmethod
    def _put(self, draw: Draw) -> None: ...

    @abstractmethod
    def _load(self, value: Tensor) -> None: ...


class LastingMaster(Substitute):
    """The master is the full weight, between steps too."""

    def __init__(self, param: Parameter) -> None:
        super().__init__(param, param.detach().float())

    def full_weight(self) -> Tensor:
        return self.master.detach().clone()

    def write_back(self) -> None:
        self.put(Draw())

    def extras(self) -> dict[str, Tensor]:
        return {"master": self.master.detach()}

    def load_extras(self, extras: Mapping[str, Tensor]) -> None:
        extra_of("master", self.param, extras)
        self.load_full_weight(extras["master"])

    @torch.no_grad()
    def _adopt(self) -> bool:
        differs = (self.master.to(self.param.dtype) != self.param) & ~(self.master.isnan() & self.param.isnan())
        if not bool(differs.any()):
            return False
        self.master.copy_(torch.where(differs, self.param.float(), self.master))
        return True

    @torch.no_grad()
    def _put(self, draw: Draw) -> None:
        self.param.copy_(self.master)

    @torch.no_grad()
    def _load(self, value: Tensor) -> None:
        self.master.copy_(value)
        self.param.copy_(value)


class FleetingMaster(Substitute):
    """The master exists while the optimizer steps; between steps the full weight is the parameter and what it lacks.

    Between steps the master has its shape, four bytes of memory, and NaN in every element.
    """

    def __init__(self, param: Parameter, kind: WeightKind) -> None:
        super().__init__(param, _no_values(param))
        stored = begin(kind, param)
        self._kind: WeightKind = kind
        self._extra = stored.extra

    def bring(self) -> None:
        self.master.data = load_weight(self._stored())

    def full_weight(self) -> Tensor:
        return load_weight(self._stored())

    def extras(self) -> dict[str, Tensor]:
        return {} if self._extra is None else {EXTRAS[self._kind][0]: self._extra}

    def load_extras(self, extras: Mapping[str, Tensor]) -> None:
        extra = extra_of(self._kind, self.param, extras)
        if self._extra is not None and extra is not None:
            self._extra.copy_(extra)
        self._seen = None  # the weight that belongs to it may be loaded before or after

    def _adopt(self) -> bool:
        return adopt_write(self._stored())

    def _put(self, draw: Draw) -> None:
        store_weight(self._stored(), self.master.detach().contiguous(), draw)
        self.master.data = _no_values(self.param)

    def _load(self, value: Tensor) -> None:
        load_nearest(self._stored(), value.contiguous())

    def _stored(self) -> StoredWeight:
        return StoredWeight(self._kind, self.param.detach(), self._extra)


def _no_values(param: Parameter) -> Tensor:
    return torch.full((), math.nan, dtype=torch.float32, device=param.device).expand(param.shape)


def _follow_gradient(substitute: Substitute) -> torch.utils.hooks.RemovableHandle:
    """Attach each gradient as soon as it is there; the parameter keeps no reference to its substitute."""
    reference = weakref.ref(substitute)

    def attach(_: Tensor) -> None:
        alive = reference()
        if alive is not None:
            alive.attach_gradient()

    return substitute.param.register_post_accumulate_grad_hook(attach)
