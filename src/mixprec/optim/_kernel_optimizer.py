"""An optimizer whose step is one kernel: its groups, its state and its call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ..kernels import Rule, StoredWeight
from ..specs import Moments, Weights
from ._calls import Call, Calls, MadeFrom, Version, version_of
from ._held import Held
from ._layout import Layout, MomentName, convert_state
from ._load_state import load_state, plain_groups, read_state
from ._stored import adopt_write, refuse_sharded

Group = dict[str, Any]
_PARAMETERS = frozenset((torch.float32, torch.bfloat16, torch.float16))
_LAYOUTS = frozenset((torch.strided,))


class KernelOptimizer(Optimizer, ABC):
    """What the optimizers of this package share.

    Each group has ``weights``, ``moments`` and ``seed`` beside the options that torch's optimizer has; ``weights`` and
    ``moments`` of ``None`` are what the session's recipe says, and without a session ``"master"`` and fp32.
    """

    def __init__(self, params: Any, defaults: Group) -> None:
        self._versions: dict[Tensor, Version] = {}
        self._held: dict[Parameter, Held] = {}
        self._calls: Calls | None = None
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._versions, self._held, self._calls = {}, {}, None

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters with options of their own.

        Raises:
            ValueError: options out of their range, or sharded parameters.
            TypeError: parameters of a dtype that is not fp32, bf16 or fp16.
        """
        super().add_param_group(param_group)
        try:
            self._check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            del self.param_groups[-1]
            raise

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, *, factor: float = 1.0) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # torch's has overloads
        """Take one step; parameters without a gradient are left as they are.

        Args:
            closure: evaluates the model again and returns the loss, as torch's optimizers take it.
            factor: what the gradients are multiplied by first, rounded once to fp32.

        Returns:
            The closure's loss, or ``None``.

        Raises:
            ValueError: a sparse gradient; nothing has been changed then.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        gradients = self._gradients()
        if self._calls is not None and not self._calls.are_current(MadeFrom.of(self, self._said)):
            self._forget_calls()
        self.adopt_writes()
        calls = self._calls_for(gradients)
        for call in calls:
            group = call.group
            sign = -1.0 if group["maximize"] else 1.0
            call.run(self._rule(group, call.step + 1, sign * factor, call.is_first), gradients)
        calls.see()
        return loss

    def adopt_writes(self) -> list[Parameter]:
        """Follow weights that were written from outside; see ``KeptWeights.adopt_writes``."""
        if self._calls is not None and self._calls.are_unwritten():
            return []
        self._note_versions()
        changed: list[Parameter] = []
        for param, group in parameters_of(self):
            if param not in self.state or self._versions.get(param) == version_of(param):
                continue
            if adopt_write(self.stored_weight(param, group)):
                changed.append(param)
            self._versions[param] = version_of(param)
        if self._calls is not None:
            self._calls.see()
        return changed

    def keep(self, weights: Weights, moments: Moments, seed: int) -> None:
        """Let groups that do not say how they are kept be kept so; what is in the state already is converted."""
        self._forget_calls()
        for group in self.param_groups:
            old = self._options(group)
            _decide(group, weights, moments, seed)
            self._check_group(group)
            for param in group["params"]:
                if param in self.state:
                    new = self.layout(param, group)
                    convert_state(param, self.state[param], self.moment_names(group), Layout.of(param, *old), new)
        _decide(self.defaults, weights, moments, seed)  # of groups that are added later

    def layout(self, param: Tensor, group: Group) -> Layout:
        """How a parameter of a group is kept."""
        return Layout.of(param, *self._options(group))

    def stored_weight(self, param: Parameter, group: Group) -> StoredWeight:
        """A parameter with what is kept beside it, made where it is missing."""
        return self.layout(param, group).weight(param, self.state[param])

    def make_state(self, param: Parameter, group: Group) -> None:
        """Make what is kept of a parameter, where it is missing."""
        layout, state = self.layout(param, group), self.state[param]
        Held.of(param, state, layout, self.moment_names(group), group)

    def load_extras(self, param: Parameter, extras: Mapping[str, Tensor]) -> None:
        """Continue from what was kept beside a parameter; checked before."""
        self._forget_calls()
        self.state[param] |= {name: value.detach().to(param.device, copy=True) for name, value in extras.items()}
        self._versions.pop(param, None)  # the weight that belongs to it may be loaded before or after

    def state_dict(self) -> dict[str, Any]:
        """As torch's; ``weights`` and ``moments`` of each group as plain values."""
        state = super().state_dict()
        return {**state, "param_groups": plain_groups(state["param_groups"], map(self._options, self.param_groups))}

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any], convert: bool = False) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # one argument more
        """Continue from a ``state_dict()``, or from that of torch's optimizer of the same rule and parameters.

        Tensors keep the dtype that they were saved in. With ``convert``, load the model's weights before: the full
        value of a split or compensated weight is that of its 16 bits and of what was saved beside them.

        Args:
            state_dict: what ``state_dict()`` gave; it is copied.
            convert: whether a state that was kept otherwise is converted to how this optimizer keeps its own.

        Raises:
            ValueError: other parameters or options, or a state that is kept otherwise, without ``convert``.
        """
        load_state(self, state_dict, convert)

    def check_state_dict(self, state_dict: Mapping[str, Any], convert: bool = False) -> None:
        """Refuse what ``load_state_dict`` would refuse, and change nothing.

        Args:
            state_dict: as it takes it.
            convert: as it takes it.

        Raises:
            ValueError: as it does.
        """
        read_state(self, state_dict, convert)

    def load_groups(self, groups: list[Group]) -> None:
        """Take over the options of saved groups, and forget the state."""
        super().load_state_dict({"state": {}, "param_groups": groups})

    @abstractmethod
    def moment_names(self, group: Group) -> tuple[MomentName, ...]:
        """The moments of the rule under a group's options."""

    @abstractmethod
    def check_options(self, group: Group) -> None:
        """Refuse options out of their range."""

    @abstractmethod
    def _rule(self, group: Group, step: int, factor: float, is_first: bool) -> Rule:
        """One step, the ``step``-th, of parameters; ``is_first``: of those without moments."""

    def _options(self, group: Group) -> tuple[Weights, Moments]:
        return cast("Weights", group["weights"] or "master"), group["moments"] or Moments()

    def _check_group(self, group: Group) -> None:
        who = type(self).__name__
        for param in group["params"]:
            refuse_sharded(
                param,
                f"mixprec.optim.{who}",
                f"use torch.optim.{who}, whose masters of 16-bit parameters are sharded too",
            )
            if param.dtype not in _PARAMETERS:
                raise TypeError(
                    f"mixprec.optim.{who} takes fp32, bf16 and fp16 parameters, got {param.dtype} of shape "
                    f"{list(param.shape)}: use torch.optim.{who} for those"
                )
            self.layout(param, group)
        self.check_options(group)

    def _calls_for(self, gradients: Sequence[Tensor | None]) -> Calls:
        """One call for the parameters of a group that have taken equally many steps on one device."""
        if self._calls is not None and self._calls.fit(gradients):
            return self._calls
        self._forget_calls()
        calls: list[Call] = []
        index = 0
        for group in self.param_groups:
            same: dict[tuple[int, bool, torch.device], list[tuple[int, Held]]] = {}
            for param in group["params"]:
                if gradients[index] is not None:
                    held, is_first = self._holding(param, group)
                    same.setdefault((int(held.step), is_first, param.device), []).append((index, held))
                index += 1
            calls += [Call(group, members, step, is_first) for (step, is_first, _), members in same.items()]
        self._calls = Calls(calls, MadeFrom.of(self, self._said), self.state, gradients)
        return self._calls

    def _holding(self, param: Parameter, group: Group) -> tuple[Held, bool]:
        """The tensors of a parameter, and whether its moments were missing."""
        state, names, held = self.state[param], self.moment_names(group), self._held.get(param)
        if held is not None and held.is_current(state, names, group):
            return held, False
        is_first = any(name.values(state) is None for name in names)
        held = self._held[param] = Held.of(param, state, self.layout(param, group), names, group)
        return held, is_first

    def _said(self, group: Group) -> tuple[object, ...]:
        return group["weights"], group["moments"], self.moment_names(group)

    def _note_versions(self) -> None:
        if self._calls is not None:
            self._versions.update(self._calls.versions())

    def _forget_calls(self) -> None:
        self._note_versions()
        self._calls = None

    def _gradients(self) -> list[Tensor | None]:
        """Of every parameter, in order; what does not fit is refused before anything is changed."""
        gradients = [param.grad for group in self.param_groups for param in group["params"]]
        there = [grad for grad in gradients if grad is not None]
        if not ({grad.layout for grad in there} <= _LAYOUTS and {grad.dtype for grad in there} <= _PARAMETERS):
            misfit = next(g for g in there if g.layout not in _LAYOUTS or g.dtype not in _PARAMETERS)
            raise ValueError(
                f"mixprec.optim.{type(self).__name__}: a parameter of shape {list(misfit.shape)} has a gradient of "
                f"{misfit.layout} and {misfit.dtype}, expected a dense one of 16 or 32 bits: use "
                "torch.optim.SparseAdam or torch.optim.SGD for sparse gradients, torch's optimizers for fp64"
            )
        return gradients


def _decide(options: Group, weights: Weights, moments: Moments, seed: int) -> None:
    options["weights"], options["moments"] = options["weights"] or weights, options["moments"] or moments
    options["seed"] = seed


def parameters_of(optimizer: Optimizer) -> Iterator[tuple[Parameter, Group]]:
    """Every parameter with its group, in order."""
    return ((param, group) for group in optimizer.param_groups for param in group["params"])
