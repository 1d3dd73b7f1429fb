"""The first bad value of a piece of a loop that is run for it, for loops that nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ...nn import Conversion, conversion_of
from .._aside import everything_aside
from ._diagnosis import Circumstances, diagnose, laundered, saturation_fault
from ._fault import Fault
from ._known import KnownTensors
from ._lineage import Birth
from ._range import Range, is_finite, is_measured, own, ranges_of, tensor_leaves
from ._sites import named_root
from ._smaller_losses import SmallerPass
from ._watch import FaultWatch


def locate(
    model: nn.Module,
    run_step: Callable[[], object],
    *,
    step: int = 0,
    scale: float | Callable[[], float | None] | None = None,
    conversion: Conversion | None = None,
) -> Fault | None:
    """Run a step's forward and backward passes, watched, and tell the first bad value of them; the loss's own too.

    Gradients, buffers, random states and a conversion's offsets are afterwards as they were. Python state that
    ``run_step`` changes itself stays changed.

    Args:
        model: the root.
        run_step: calls the model, its loss and ``backward``; no optimizer's step. The losses that it calls ``backward``
            on are looked at, and what it returns.
        step: told with the fault.
        scale: what ``run_step`` multiplies its loss by; an overflow of the backward pass is tried at 1. ``None``: it is
            not known, and the scale is neither blamed nor excluded. Or a function that tells it after the run.
        conversion: of the model, or ``None``: found, if it has one.

    Returns:
        The first fault; ``None`` where its losses, what it returns and all gradients are finite, and no cast hides an
        infinity.

    Raises:
        TypeError: ``model`` is no module, ``run_step`` cannot be called, or the scale is no number.
        ValueError: ``run_step`` has changed parameters, or has run no backward pass and returned nothing.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> fault = locate(model, lambda: (model(torch.ones(1, 2)) * 0).log().sum().backward())
        >>> fault.site, fault.cause.name  # the sign of the infinity is that of the zero
        ('<loss>', 'log or division of a zero')
    """
    _check(model, run_step, scale)
    conversion = conversion_of(model) if conversion is None else conversion
    versions = [(name, p, p._version) for name, p in model.named_parameters()]
    named = named_root(model, conversion)
    known = KnownTensors(named)
    watch = FaultWatch(named, conversion, known, is_whole=False)
    inputs: list[Range] = []
    losses, gradients = _run(model, conversion, run_step, watch, known, inputs)
    changed = [name for name, p, version in versions if p._version != version]
    if changed:
        raise ValueError(
            f"locate: run_step has changed parameter {changed[0]}: expected the forward and the backward pass alone, "
            "without the optimizer's step"
        )
    around = Circumstances(
        model=named,
        step=step,
        inputs=tuple(inputs),
        scale=scale() if callable(scale) else scale,
        losses_are_finite=True,
        can_be_tried=not watch.has_talked,
        is_finite_at=lambda divisor: _is_finite_at(divisor, model, conversion, run_step),
    )
    found = [*losses, *gradients]
    # A loss that is bad went bad before any gradient did.
    birth = watch.lineage.first(losses) or watch.lineage.first(gradients)
    if birth is None and found:
        birth = min((b.root() for b in watch.lineage.all), key=lambda b: b.index, default=None)
    return _hidden(watch, around) if birth is None else diagnose(birth, around)


def _is_finite_at(
    divisor: float, model: nn.Module, conversion: Conversion | None, run_step: Callable[[], object]
) -> bool | None:
    """Whether its gradients are, were the losses multiplied by less; ``None`` where that could not be tried."""
    trial = SmallerPass(model, divisor)
    gradients = _run(model, conversion, run_step, None, None, [], trial)[1]
    return None if gradients and trial.is_void else not gradients


def _hidden(watch: FaultWatch, around: Circumstances) -> Fault | None:
    """What a cast has hidden."""
    found = watch.roles.saturations
    for saturation in found:
        births: list[Birth] = [birth.root() for birth in saturation.births if not birth.is_quiet]
        if births:
            return laundered(saturation, min(births, key=lambda birth: birth.index), around)
    return saturation_fault(found[0], around.step) if found else None


def _run(
    model: nn.Module,
    conversion: Conversion | None,
    run_step: Callable[[], object],
    watch: FaultWatch | None,
    known: KnownTensors | None,
    inputs: list[Range],
    trial: SmallerPass | None = None,
) -> tuple[list[Tensor], list[Tensor]]:
    """Bad losses (and tensors that ``run_step`` has returned), and bad gradients."""

    def see(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if known is not None:
            known.add_arguments(args, kwargs)
            inputs.extend(ranges_of((args, kwargs)))

    with everything_aside(model, conversion):
        if known is not None:
            known.add_buffers(named_root(model, conversion))
        with _arguments_seen(model, see), trial or nullcontext(), torch.enable_grad():
            if watch is None:
                returned = run_step()
            else:
                with watch:
                    returned = run_step()
        gradients = [own(p.grad) for p in model.parameters() if p.grad is not None]
        losses = [x.detach() for x in tensor_leaves(returned)]
        losses += [] if watch is None else watch.backpropagated.roots
        if watch is not None and not losses and not gradients:
            raise ValueError(
                "locate: run_step has run no backward pass through the model and has returned no tensor: there is "
                "nothing to look at: call loss.backward() in it"
            )
        return _bad(losses), _bad(gradients)


def _bad(tensors: list[Tensor]) -> list[Tensor]:
    return [x for x in tensors if is_measured(x) and not is_finite(x)]


def _check(model: object, run_step: object, scale: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"locate: model is a {type(model).__name__}, expected a torch.nn.Module; the order is "
            "locate(model, run_step)"
        )
    if isinstance(run_step, nn.Module) or not callable(run_step):
        raise TypeError(
            f"locate: run_step is a {type(run_step).__name__}, expected a function without arguments that runs the "
            "forward and the backward pass, e.g. lambda: loss_fn(model(x), y).backward()"
        )
    is_number = isinstance(scale, int | float) and not isinstance(scale, bool)
    if scale is not None and not is_number and not callable(scale):
        raise TypeError(f"locate: scale is a {type(scale).__name__}, expected a number, or None where it is not known")


@contextmanager
def _arguments_seen(model: nn.Module, see: Callable[..., None]) -> Generator[None]:
    """Tells what the model is called with."""
    handle = model.register_forward_pre_hook(see, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
