"""torch's ``GradScaler`` with mixprec's rule for the scale, and without the ways in which torch's loses a run."""

# torch's scaler has these protected names for the optimizers and libraries that build on it.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import logging
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import _refresh_per_optimizer_state
from torch.optim import Optimizer

from ...loss_scaling import ScaleEvent, ScaleState, after_step
from ...specs import LossScale
from .._unscaling import coalesced, unscale
from ._device_here import device_here, tell_device

_LOG = logging.getLogger("mixprec")
_KEPT_EVENTS = 1000
_LARGEST, _SMALLEST = 2.0**127, 2.0**-24
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
    - A closure is refused however it is given.
    - A new scale, and a loaded state, are checked before they are taken.

    Args:
        device: ``"cuda"`` or ``"cpu"``; where there is no CUDA, the CPU stands for it.
        init_scale: the first scale.
        growth_factor: at growth, above 1.
        backoff_factor: after a step that was skipped, between 0 and 1.
        growth_interval: applied steps from one change to growth.
        enabled: whether losses are scaled at all; if not, ``step(optimizer)`` is ``optimizer.step()``.

    Raises:
        ValueError: numbers out of order.
        TypeError: what should be a number and is none.

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
    ) -> None:
        if enabled:
            tell_device(device, "GradScaler")
            _rule(init_scale, growth_factor, backoff_factor, growth_interval)
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
        return super().step(optimizer, *args, **kwargs)

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
            self._set(_checked_scale("new_scale", new_scale), None)
        else:
            found = [f for state in self._per_optimizer_states.values() for f in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError(
                    "No inf checks were recorded prior to update: expected scaler.step(optimizer) or "
                    "scaler.unscale_(optimizer) for an optimizer with gradients since the last update"
                )
            told = torch.stack([t.reshape(()).to(scale.device, scale.dtype) for t in (scale, tracker, *found)]).tolist()
            before = replace(self._last, scale=told[0], good_steps=int(told[1]))  # one transfer told all of it
            rule = _rule(before.scale, self._growth_factor, self._backoff_factor, self._growth_interval)
            self._last, events = after_step(rule, before, not any(told[2:]))
            self._set(self._last.scale, self._last.good_steps)
            self._tell(events)
        self._per_optimizer_states = defaultdict(_refresh_per_optimizer_state)

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the factor at growth, above 1."""
        _rule(1.0, new_factor, self._backoff_factor, self._growth_interval)
        self._growth_factor = new_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the factor after a skipped step, between 0 and 1."""
        _rule(1.0, self._growth_factor, new_factor, self._growth_interval)
        self._backoff_factor = new_factor

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the applied steps from one change to growth."""
        _rule(1.0, self._growth_factor, self._backoff_factor, new_interval)
        self._growth_interval = new_interval

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()`` of this class or of torch's; nothing advances.

        Raises:
            RuntimeError: that of a disabled scaler.
            ValueError: not a scaler's state, or one whose scale no run can use.
        """
        if not self._enabled:
            return
        if state_dict:
            missing = [key for key in _KEYS if key not in state_dict]
            if missing:
                raise ValueError(
                    f"GradScaler.load_state_dict: {', '.join(missing)} missing, got {', '.join(map(str, state_dict))}: "
                    "expected what GradScaler.state_dict() gives"
                )
            scale = _checked_scale("scale", state_dict["scale"])
            _rule(scale, *(state_dict[key] for key in _KEYS[1:4]))
            self._last, self._is_below_one = ScaleState(scale), scale < 1
        super().load_state_dict(dict(state_dict))

    def _unscale_grads_(
        self, optimizer: Optimizer, inv_scale: Tensor, found_inf: Tensor, allow_fp16: bool
    ) -> dict[torch.device, Tensor]:
        gradients = [_checked_gradient(p, allow_fp16) for g in optimizer.param_groups for p in g["params"]]
        there = [gradient for gradient in gradients if gradient is not None]
        return unscale(there, inv_scale, found_inf, checks_result=self._is_below_one)

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


def _rule(scale: float, growth: float, backoff: float, interval: int) -> LossScale:
    """The rule of a scaler; refuses numbers out of order."""
    return LossScale(
        kind="dynamic",
        initial=scale,
        growth=growth,
        backoff=backoff,
        interval=interval,
        minimum=min(_SMALLEST, scale) if isinstance(scale, Real) and scale > 0 else _SMALLEST,
        maximum=_LARGEST,
    )


def _checked_scale(name: str, value: Any) -> float:
    if isinstance(value, Tensor):
        if value.numel() != 1 or value.requires_grad:
            raise ValueError(
                f"GradScaler: {name} is a tensor of shape {list(value.shape)} with "
                f"requires_grad={value.requires_grad}, expected one number without a graph"
            )
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"GradScaler: {name} is {value!r} ({type(value).__name__}), expected a number above 0")
    scale = float(value)
    if not (math.isfinite(scale) and 0 < scale <= _LARGEST):
        raise ValueError(
            f"GradScaler: {name} is {scale}, expected a finite number above 0 and at most 2^127: with such a scale "
            "every gradient is zero or not finite; start a new GradScaler instead"
        )
    return scale


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
