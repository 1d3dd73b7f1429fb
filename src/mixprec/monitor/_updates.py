"""Whether weights move: updates that a 16-bit weight rounds away."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

#: Elements of one parameter that are compared; more are sampled at equal distances.
SAMPLED = 4096


@dataclass(frozen=True)
class UpdateFinding:
    """A parameter that did not move.

    Attributes:
        site: the parameter's name.
        message: what was counted and what to do.
    """

    site: str
    message: str


class UpdateWatch:
    """Compares 16-bit weights with what they were some applied steps before.

    A window of ``window`` applied steps opens at the first step and then every ``every`` steps; at its end each
    parameter whose gradient was not zero (and whose learning rate was not) in at least half of the window's steps
    must have an element that moved. Costs a copy of at most 4,096 elements per parameter and one transfer for each
    window; between windows nothing.

    Args:
        params: 16-bit parameters by name.
        window: applied steps compared.
        every: applied steps from one window's start to the next one's.

    Example:
        >>> p = Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> watch = UpdateWatch({"norm.weight": p}, window=1)
        >>> watch.before_step({p})
        >>> _ = p.data.sub_(0.001)  # half a unit in the last place is 0.002
        >>> watch.after_step()[0].message
        "update too small: 0 of 4 elements of norm.weight moved in 1 steps (bf16 ... use recipe 'bf16' (fp32 master)..."
    """

    def __init__(self, params: Mapping[str, Parameter], *, window: int = 20, every: int = 1000) -> None:
        self.params, self.window, self.every = dict(params), window, max(every, window)
        self._before: dict[str, Tensor] = {}
        self._active: dict[str, int] = {}
        self._applied = 0
        self._opened = -1

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The copies that are there."""
        return tuple(self._before.values())

    def before_step(self, active: Collection[Tensor]) -> None:
        """To be called before the optimizer's step; where several step as one, before each.

        Args:
            active: parameters that have a gradient other than zero and a learning rate other than zero.
        """
        position = self._applied % self.every
        if position == 0 and self._opened != self._applied:
            self._opened = self._applied
            self._before = {name: _sample(p).clone() for name, p in self.params.items()}
            self._active = dict.fromkeys(self.params, 0)
        if position < self.window:
            ids = {id(p) for p in active}
            for name, p in self.params.items():
                self._active[name] += id(p) in ids

    def after_step(self) -> tuple[UpdateFinding, ...]:
        """To be called after an applied step; tells what a window that ends now found."""
        self._applied += 1
        if self._applied % self.every != self.window % self.every or not self._before:
            return ()
        before, self._before = self._before, {}
        watched = [name for name, n in self._active.items() if 2 * n >= self.window and before[name].numel()]
        if not watched:
            return ()
        moved = torch.stack([(_sample(self.params[name]) != before[name]).sum().cpu() for name in watched]).tolist()
        return tuple(
            UpdateFinding(name, self._message(name, before[name].numel()))
            for name, n in zip(watched, moved, strict=True)
            if n == 0
        )

    def state_dict(self) -> dict[str, Any]:
        """The steps so far, and the window that is open: who was active, and samples from its beginning."""
        return {"applied": self._applied, "active": dict(self._active), "before": dict(self._before)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``; of other parameters, its window is dropped."""
        self._applied, self._opened, before = int(state_dict["applied"]), -1, dict(state_dict["before"])
        fits = before.keys() == self.params.keys()
        self._active = {name: int(n) for name, n in state_dict["active"].items()} if fits else {}
        self._before = {name: value.to(self.params[name].device) for name, value in before.items()} if fits else {}

    def _message(self, name: str, compared: int) -> str:
        p = self.params[name]
        elements = f"{compared} elements" if compared == p.numel() else f"{compared} sampled elements (of {p.numel()})"
        bits, dtype = (8, "bf16") if p.dtype == torch.bfloat16 else (11, "fp16")
        return (
            f"update too small: 0 of {elements} of {name} moved in {self.window} steps ({dtype} holds {bits} "
            f"significant bits, and each update is below half of the last one); use recipe '{dtype}' (fp32 master), or "
            "a larger learning rate"
        )


@torch.no_grad()
def _sample(param: Parameter) -> Tensor:
    """At most ``SAMPLED`` elements at equal distances, a view where the layout allows it."""
    stride = -(-param.numel() // SAMPLED)
    return param.detach().reshape(-1)[:: max(stride, 1)]
