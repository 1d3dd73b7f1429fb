"""torch's ``GradScaler`` with mixprec's rule for the scale, and without the ways in which torch's loses a run."""

# torch's scaler has these protected names for the optimizers and libraries that build on it.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.amp.grad_scaler import _refresh_per_optimizer_state
from torch.optim import Optimizer

from ...distributed import Alone, Opinion, ranks_of
from ...loss_scaling import ScaleEvent, ScaleState, after_step
from .._unscaling import coalesced, unscale
from ._device_here import device_here, tell_device
from ._scaler_checks import check_device, checked_scale, rule_of

_LOG = logging.getLogger("mixprec")
_KEPT_EVENTS = 1000
_KEYS = ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker")
_16_BIT = (torch.float16, torch.bfloat16)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler`` for a loop that is kept: its interface, its states, its errors.

    It is a subclass, so that libraries and optimizers that know torch's know it. What differs:

    - The scale follows ``mixprec.loss_scaling``: it stays finite and positive, between 2^-24 and 2^127, whatever the
      gradients are; reaching either end, and 20 skipped steps in a row, are told once (``events``, and the logger
      ``mixprec``).
    - A 16-bit loss is scaled in fp32.
    - Below a scale of 1, gradients that leave the range as they are unscaled count as not finite.
    - Where ``torch.distributed`` is initialised, ranks agree: a gradient that is not finite on one skips the step on
      all, and their scales stay equal. Every rank has to step (or unscale) the same optimizers in the same order, as
      under DDP or ``fully_shard``.
    - A closure is refused however it is given.
    - A new scale, and a loaded state, are checked before they are taken.

    Args:
        device: ``"cuda"`` or ``"cpu"``; where there is no CUDA, the CPU stands for it.
        init_scale: the first scale.
        growth_factor: at growth, above 1.
        backoff_factor: after a step that was skipped, between 0 and 1.
        growth_interval: applied steps from one change to growth.
        enabled: whether losses are scaled at all; if not, ``step(optimizer)`` is ``optimizer.step()``.
        process_group: the ranks that agree: ``"default"``: all, where ``torch.distributed`` is initialised; ``None``:
            this process alone, where each rank trains a model of its own.

    Raises:
        ValueError: numbers out of order.
        TypeError: what should be a number and is none; a number as the device.
        RuntimeError: a device that torch does not know.

    Warns:
        UserWarning: the CPU stands for CUDA.

    Source: the interface is that of ``torch.amp.GradScaler``, https://docs.pytorch.org/docs/stable/amp.html; scaling:
    Micikevicius et al., Mixed Precision Training, arXiv:1710.03740.

    Example:
        >>> p = torch.nn.Parameter(torch.ones(1))
        >>> optimizer, scaler = torch.optim.SGD([p], lr=0.5), GradScaler("cpu", init_scale=4.0)
        >>> for factor in (float("inf"), 1.0):
        ...     optimizer.zero_grad()
        ...     scaler.scale(factor * p.sum()).backward()
        ...     scaler.step(optimizer)
        ...     scaler.update()
        >>> p.item(), scaler.get_scale()
        (0.5, 2.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        *,
        process_group: dist.ProcessGroup | Literal["default"] | None = "default",
    ) -> None:
        check_device(device)
        ranks_of(process_group)  # refuses what is no group
        self._process_group: dist.ProcessGroup | Literal["default"] | None = process_group
        if enabled:
            tell_device(device, "GradScaler")
            rule_of(init_scale, growth_factor, backoff_factor, growth_interval)
        super().__init__(
            device_here(device), float(init_scale), growth_factor, backoff_factor, growth_interval, bool(enabled)
        )
        self._events: deque[ScaleEvent] = deque(maxlen=_KEPT_EVENTS)
        self._last = ScaleState(float(init_scale))
        self._is_below_one = init_scale < 1

    @property
    def events(self) -> tuple[ScaleEvent, ...]:
        """What the scale told: the last 1,000 events, oldest first."""
        return tuple(self._events)

    def scale(self, outputs: Any) -> Any:
        """Multiply a tensor by the scale, or each of an iterable of them.

        Args:
            outputs: a tensor of any shape, or lists, tuples and iterables of tensors. What has 16 bits becomes fp32
                first, since 16 bits may not hold the scale.

        Raises:
            ValueError: something else.
        """
        return _each(outputs, super().scale) if self._enabled else outputs

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> float | None:
        """Take one step of the optimizer, unless a gradient is not finite.

        Args:
            optimizer: whose gradients are unscaled first, unless ``unscale_`` has done it.
            *args: for ``optimizer.step``.
            **kwargs: likewise.

        Returns:
            What ``optimizer.step`` gives, or ``None``.

        Raises:
            RuntimeError: a closure; or a second step before ``update``.
            ValueError: fp16 gradients.
            AssertionError: no gradient, or no loss that was scaled.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if any(map(callable, (*args, kwargs.pop("closure", None)))):
            raise RuntimeError(
                "GradScaler.step got a closure, which evaluates the loss several times in one step, each at a scale of "
                "its own: expected none; use an optimizer whose step needs none, or GradScaler(enabled=False)"
            )
        if self._is_below_one and self._is_ready(optimizer):
            self.unscale_(optimizer)  # a fused optimizer would divide inside, where nobody looks at the result
        try:
            return super().step(optimizer, *args, **kwargs)
        except AssertionError as error:
            if "No inf checks" not in str(error):
                raise
            raise AssertionError(
                f"{error} None of the parameters of this {type(optimizer).__name__} has a gradient: call "
                "scaler.scale(loss).backward() first, on a loss of the model whose parameters it holds, and step only "
                "optimizers that the backward pass has reached"
            ) from None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale by what the steps since the last update have found, or set it.

        Args:
            new_scale: a number, or a tensor of one, above 0 and at most 2^127.

        Raises:
            AssertionError: no loss was scaled, or no optimizer has stepped.
            ValueError: a new scale out of range.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            self._set(checked_scale("new_scale", new_scale), None)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError(
                    "No inf checks were recorded prior to update: expected scaler.step(optimizer) or "
                    "scaler.unscale_(optimizer) for an optimizer with gradients since the last update"
                )
            told = torch.stack([t.reshape(()).to(scale.device, scale.dtype) for t in (scale, tracker, *found)]).tolist()
            before = replace(self._last, scale=told[0], good_steps=int(told[1]))  # one transfer told all of it
            rule = rule_of(before.scale, self._growth_factor, self._backoff_factor, self._growth_interval)
            self._last, events = after_step(rule, before, not any(told[2:]))
            self._set(self._last.scale, self._last.good_steps)
            self._tell(events)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor at growth, above 1."""
        rule_of(1.0, new_factor, self._backoff_factor, self._growth_interval)
        self._growth_factor = new_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor after a skipped step, between 0 and 1."""
        rule_of(1.0, self._growth_factor, new_factor, self._growth_interval)
        self._backoff_factor = new_factor

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the applied steps from one change to growth."""
        rule_of(1.0, self._growth_factor, self._backoff_factor, new_interval)
        self._growth_interval = new_interval

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()`` of this class or of torch's; nothing advances.

        Raises:
            RuntimeError: that of a disabled scaler.
            TypeError: no mapping.
            ValueError: not a scaler's state, or one whose scale no run can use.
        """
        if not self._enabled:
            return
        if not isinstance(cast("object", state_dict), Mapping):
            raise TypeError(
                f"GradScaler.load_state_dict: got {state_dict!r} ({type(state_dict).__name__}), expected what "
                "GradScaler.state_dict() gives; a checkpoint without it was saved without a scaler: leave the call out"
            )
        if state_dict:
            missing = [key for key in _KEYS if key not in state_dict]
            if missing:
                raise ValueError(
                    f"GradScaler.load_state_dict: {', '.join(missing)} missing, got {', '.join(map(str, state_dict))}: "
                    "expected what GradScaler.state_dict() gives"
                )
            scale = checked_scale("scale", state_dict["scale"])
            rule_of(scale, *(state_dict[key] for key in _KEYS[1:4]))
            self._last, self._is_below_one = ScaleState(scale), scale < 1
        super().load_state_dict(dict(state_dict))

    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        gradients = [_checked_gradient(p, allow_fp16) for g in optimizer.param_groups for p in g["params"]]
        there = [gradient for gradient in gradients if gradient is not None]
        found = unscale(there, inv_scale, found_inf, checks_result=self._is_below_one)
        return self._agree(optimizer, found)

    def _agree(self, optimizer: Optimizer, found: dict[torch.device, Tensor]) -> dict[torch.device, Tensor]:
        """What is not finite on one rank is not finite on all."""
        ranks = ranks_of(self._process_group)
        if isinstance(ranks, Alone):
            return found  # torch's own path: nothing waits for the device here
        is_finite = not any(bool(flag) for flag in found.values())
        opinion = Opinion(
            is_finite=is_finite,
            norm=0.0,
            has_gradients=(),
            optimizers=(type(optimizer).__name__,),
            plan="GradScaler",
        )
        if not ranks.agree(opinion, compares_norms=False).is_finite:
            for flag in found.values():
                flag.fill_(1.0)
        return found

    def _check_scale_growth_tracker(self, funcname: str) -> tuple[Tensor, Tensor]:
        try:
            return super()._check_scale_growth_tracker(funcname)
        except AssertionError as error:
            raise AssertionError(
                f"{error} Call scaler.scale(loss).backward() before scaler.{funcname}; every loss goes through scale"
            ) from None

    def _is_ready(self, optimizer: Optimizer) -> bool:
        state = self._per_optimizer_states.get(id(optimizer))
        return self._scale is not None and (state is None or state["stage"].name == "READY")

    def _set(self, scale: float, good_steps: int | None) -> None:
        own_scale, tracker = self._check_scale_growth_tracker("update")
        own_scale.fill_(scale)
        if good_steps is not None:
            tracker.fill_(good_steps)
        self._is_below_one = scale < 1

    def _tell(self, events: Iterable[ScaleEvent]) -> None:
        for event in events:
            self._events.append(event)
            _LOG.warning("GradScaler: %s", event.message)


def _checked_gradient(param: Tensor, allow_fp16: bool) -> Tensor | None:
    if param.grad is None:
        return None
    if param.grad.dtype == torch.float16 and not allow_fp16:
        raise ValueError(
            f"Attempting to unscale FP16 gradients (of a parameter of shape {list(param.shape)}): what the scale has "
            "kept would be lost as it is taken out. Expected fp32 parameters, which the region casts itself: leave out "
            "model.half(); for 16-bit weights with fp32 masters take mixprec.prepare, or mixprec.compat.apex_amp with "
            "opt_level='O2'"
        )
    if param.grad.is_sparse:
        param.grad = coalesced(param.grad)
    return param.grad


def _each(value: Any, scale: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return scale(value.float() if value.dtype in _16_BIT else value)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(
            f"GradScaler.scale: got a {type(value).__name__}, expected a tensor, or an iterable of tensors"
        )
    scaled = (_each(v, scale) for v in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(scaled)  # pyright: ignore[reportAttributeAccessIssue]  # a named tuple
    return type(value)(scaled) if isinstance(value, (list, tuple)) else scaled
