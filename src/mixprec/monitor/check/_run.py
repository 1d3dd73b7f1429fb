"""One watched step: forward, loss, backward, and what the detectors make of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from ...nn import Conversion
from .._aside import everything_aside
from ._findings import Findings
from ._preflight import Preflight
from ._refused import finding_of
from ._setting import Setting
from ._unexplained import unexplained
from ._watch import StepWatcher
from .detectors import DETECTORS, Step

#: How much larger than this a second loss scale is at most tried, and from which room on it is worth trying.
_LARGEST, _LEAST = 2.0**24, 4.0


def run_check(setting: Setting, step: Callable[[], Tensor]) -> Preflight:
    """Run a step watched, leave everything as it was, and tell what was found.

    Args:
        setting: what the check is about.
        step: runs the forward pass and returns the loss: one number with a graph.

    Raises:
        TypeError: ``step`` is not callable, or returns no tensor.
        ValueError: it returns more than one number, or one without a graph.
    """
    if not callable(step):
        raise TypeError(
            f"check: step is {type(step).__name__}, expected a function that runs the forward pass and returns the "
            "loss, e.g. lambda: loss_fn(model(x), y)"
        )
    findings = Findings()
    detectors = [make(setting) for make in DETECTORS.values()]
    watcher = StepWatcher(setting, detectors, findings)
    with everything_aside(setting.model, setting.conversion) as buffers:
        try:
            ended = _watched(setting, step, watcher, buffers)
        except Exception as error:
            told = finding_of(error, setting, watcher)
            if told is None:
                raise
            findings.add([told])
            ended = None
        finally:
            watcher.give_back()
    if ended is not None:
        for detector in detectors:
            findings.add(detector.end(ended))
        if not any(f.severity == "fault" or f.name == "gradient overflow" for f in findings.all()):
            left = unexplained(setting, ended, watcher)
            findings.add([] if left is None else [left])
    return Preflight(findings=findings.all(), recipe=setting.recipe, operations=watcher.operations)


def _watched(setting: Setting, step: Callable[[], Tensor], watcher: StepWatcher, buffers: Mapping[str, Tensor]) -> Step:
    """The step itself; a second backward pass where fp16 may have flushed gradients."""
    held = {**buffers, **watcher.attributes}
    before = {name: tensor.detach().clone() for name, tensor in held.items()}
    versions = {name: tensor._version for name, tensor in held.items()}
    conversion = setting.conversion
    if conversion is not None:
        conversion.measure_next_step()
    with watcher, torch.enable_grad():
        loss = step()
        _check_loss(loss)
        again = watcher.has_fp16
        _backward(setting, loss, setting.loss_scale, retain_graph=again)
    audit = None if conversion is None else conversion.audit()
    gradients = _gradients(setting)
    larger = _larger_scale(setting, watcher) if again else setting.loss_scale
    flushed: dict[str, tuple[int, int]] = {}
    if larger >= _LEAST * setting.loss_scale:
        flushed = _flushed(setting, loss, gradients, larger)
    now = {name: _now(setting, name, held) for name in held}
    # An attribute that holds another tensor now (the last activations) accumulates nothing that is known here.
    now = {name: tensor for name, tensor in now.items() if name in buffers or tensor is held[name]}
    return Step(
        loss=loss.detach(),
        gradients=gradients,
        buffers={name: (before[name], now[name]) for name in now},
        written=frozenset(
            name for name in now if now[name]._version != versions[name] or _is_replaced_number(now[name], held[name])
        ),
        compute=watcher.compute,
        audit=audit,
        fp16_amax=watcher.fp16_amax,
        fp16_overflows=watcher.fp16_overflows,
        flushed=flushed,
        larger=larger,
    )


def _check_loss(loss: object) -> None:
    if not isinstance(loss, Tensor):
        raise TypeError(
            f"check: step returned {type(loss).__name__}, expected the loss: a tensor of one number. Let it run the "
            "forward pass and return the loss; the check runs the backward pass"
        )
    if loss.numel() != 1:
        raise ValueError(
            f"check: step returned a tensor of shape {tuple(loss.shape)}, expected one number: loss.mean()"
        )
    if not loss.requires_grad:
        raise ValueError(
            "check: the loss that step returned has no graph: run the model with gradients on, and neither detach the "
            "loss nor call backward in step"
        )


def _region(conversion: Conversion | None) -> AbstractContextManager[None]:
    return nullcontext() if conversion is None else conversion.region()


def _backward(setting: Setting, loss: Tensor, scale: float, *, retain_graph: bool = False) -> None:
    wide = loss if scale == 1.0 or loss.dtype in (torch.float32, torch.float64) else loss.float()
    with _region(setting.conversion):
        scaled = wide if scale == 1.0 else wide * scale
        scaled.backward(retain_graph=retain_graph)  # pyright: ignore[reportUnknownMemberType]


def _gradients(setting: Setting) -> dict[str, Tensor]:
    """The gradients that are there, which are taken away."""
    found: dict[str, Tensor] = {}
    for p, name in setting.names.items():
        if p.grad is not None:
            found[name], p.grad = p.grad, None
    return {name: grad for name, grad in found.items() if grad.layout == torch.strided}


def _larger_scale(setting: Setting, watcher: StepWatcher) -> float:
    """The largest power of two that keeps the largest fp16 gradient below a sixteenth of the limit."""
    if watcher.fp16_overflows:
        return setting.loss_scale
    # Where all are zero nothing tells how small they are: what mixed precision begins with.
    room = math.floor(math.log2(65504 / 16 / watcher.fp16_amax)) if watcher.fp16_amax else 16
    return min(setting.loss_scale * 2.0 ** max(room, 0), max(_LARGEST, setting.loss_scale))


def _flushed(
    setting: Setting, loss: Tensor, gradients: Mapping[str, Tensor], larger: float
) -> dict[str, tuple[int, int]]:
    """Of each parameter: gradients that the larger scale keeps and this one makes zero, and those that it keeps."""
    _backward(setting, loss, larger)
    counts: dict[str, tuple[int, int]] = {}
    for name, grad in _gradients(setting).items():
        kept = (grad != 0) & torch.isfinite(grad)
        lost = kept & (gradients[name] == 0) if name in gradients else kept
        counts[name] = int(lost.sum()), int(kept.sum())
    return counts


def _now(setting: Setting, name: str, held: Mapping[str, Tensor]) -> Tensor:
    """What a module holds under a buffer's or an attribute's name now."""
    path, _, key = name.rpartition(".")
    module = setting.model.get_submodule(path)
    found = module._buffers.get(key, module.__dict__.get(key))  # pyright: ignore[reportPrivateUsage]
    return found if isinstance(found, Tensor) else held[name]


def _is_replaced_number(now: Tensor, held: Tensor) -> bool:
    """Whether a counter became another tensor: of the same value where it stands still."""
    return now is not held and now.dim() == 0
