"""The backward pass at a loss's scale, and the parameters that an optimizer updates."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

from ...optim import HALF_DTYPES
from ._losses import Amp, Loss
from ._prepared import Prepared, prepared


@contextmanager
def scale_loss(
    loss: Tensor,
    optimizers: Any,
    loss_id: int = 0,
    model: object = None,
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Generator[Tensor]:
    """Give a loss times its scale, to be backpropagated inside; at the end the gradients are true ones again.

    They are fp32 (those of 16-bit parameters with masters too), and added to what was there before, which never
    carried a scale. A gradient that is not finite lowers the loss's scale, and the next step of the optimizers does
    nothing: it sees no gradient; the models' buffers are given back. What the backward pass adds to the parameters of
    other optimizers of the same ``initialize`` is true too.

    Args:
        loss: one number with a graph.
        optimizers: one that ``initialize`` has returned, or a list: those that the backward pass reaches.
        loss_id: which loss this is, where ``initialize`` was told ``num_losses``.
        model: taken and not needed.
        delay_unscale: leave the scale in: another backward pass adds to these gradients at the same scale.
        delay_overflow_check: leave the scale as it is until the step.

    Raises:
        TypeError: no optimizer; a loss that is no tensor.
        RuntimeError: an optimizer that has not been through ``initialize``; another ``scale_loss`` that is open; the
            loss itself was backpropagated. ``scaled_loss.backward()`` raises it after the end.
        ValueError: optimizers of several calls; an unknown ``loss_id``.

    Source: https://nvidia.github.io/apex/amp.html, https://nvidia.github.io/apex/advanced.html.

    Example:
        >>> import torch
        >>> from mixprec.compat import apex_amp as amp
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> model, optimizer = amp.initialize(model, optimizer, opt_level="O1", loss_scale=128.0)
        >>> with amp.scale_loss(model(torch.ones(1, 2)).sum(), optimizer) as scaled_loss:
        ...     scaled_loss.backward()
        >>> model.weight.grad
        tensor([[1., 1.]])
    """
    ready = [prepared(o) for o in (optimizers if isinstance(optimizers, list | tuple) else [optimizers])]
    amp = _common(ready)
    if not amp.is_enabled:
        yield loss
        return
    _check(loss, amp)
    scaled = amp.loss(loss_id)
    scaled.settle()
    scale = scaled.state.scale
    watched = _Watched(_wide(loss) * scale)
    taken: set[Parameter] = set()
    everyone = [*ready, *(one for one in _members(amp) if one not in ready)]
    for one in everyone:
        one.begin_backward(scale, taken)
    amp.is_open = True
    try:
        yield watched.loss
        watched.end(scale, any(one.has_new_gradients() for one in everyone))
    except BaseException:
        watched.is_open = False
        for one in everyone:
            one.abandon()
        raise
    finally:
        amp.is_open = False
    _end(everyone, ready, scaled, delays=delay_unscale and scale != 1)
    if not delay_overflow_check:
        scaled.settle()


def _end(everyone: list[Prepared], ready: list[Prepared], loss: Loss, *, delays: bool) -> None:
    """Take the scale out, of what the backward pass has reached beside its own optimizers too, and agree on it."""
    scale, name, others = loss.state.scale, f"loss {loss.number}", everyone[len(ready) :]
    found: dict[str, bool] = {}
    for one in ready:
        one.expect_gradients()
        if delays:
            one.end_with_scale(scale)
        else:
            found[name] = one.end_backward(scale) or found.get(name, False)
    found |= {f"{name}, another optimizer, {i}": one.end_backward(scale) for i, one in enumerate(others)}
    bad = ready[0].amp.agree(found) if found else frozenset[str]()
    if not delays:
        loss.note(name in bad)
    for one in ready if name in bad else ():
        one.skip_next_step()
    for i, one in enumerate(others):
        if f"{name}, another optimizer, {i}" in bad:
            one.skip_next_step(loss)


class _Watched:
    """A scaled loss, and whether it is what was backpropagated, in time.

    Attributes:
        loss: scaled.
        is_open: whether its ``with`` block has not ended.
    """

    def __init__(self, loss: Tensor) -> None:
        self.loss, self.is_open, self._is_used = loss, True, False
        if loss.requires_grad:
            loss.register_hook(self)

    def __call__(self, gradient: Tensor) -> None:
        if not self.is_open:
            raise RuntimeError(
                "scaled_loss.backward() after the end of its scale_loss: the gradients would carry the loss scale; "
                "expected it inside: with amp.scale_loss(loss, optimizer) as scaled_loss: scaled_loss.backward()"
            )
        self._is_used = True

    def end(self, scale: float, has_gradients: bool) -> None:
        """The block has ended.

        Raises:
            RuntimeError: gradients are there, and not those of this loss.
        """
        self.is_open = False
        if has_gradients and not self._is_used and scale != 1:
            raise RuntimeError(
                "scale_loss: there are new gradients, and scaled_loss was not backpropagated: expected "
                "scaled_loss.backward() in the block, not loss.backward(), whose gradients do not carry the scale; "
                "they were dropped"
            )


def master_params(optimizer: Optimizer) -> Iterator[Parameter]:
    """The parameters that an optimizer updates: fp32 masters where there are some, to clip their gradients, say.

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.ones(1))
        >>> [m is p for m in master_params(torch.optim.SGD([p], lr=0.1))]
        [True]
    """
    for group in optimizer.param_groups:
        yield from group["params"]


def _common(ready: list[Prepared]) -> Amp:
    found = {id(one.amp): one.amp for one in ready}
    if len(found) != 1:
        raise ValueError(
            f"scale_loss: got {len(ready)} optimizers of {len(found)} calls of initialize, expected those of one: give "
            "all models and optimizers to one initialize, or scale the loss for each call's optimizers"
        )
    return next(iter(found.values()))


def _check(loss: Any, amp: Amp) -> None:
    if not isinstance(loss, Tensor):
        raise TypeError(
            f"scale_loss: the loss is a {type(loss).__name__}, expected a tensor with a graph: what the model's loss "
            "function gives, without .item(); add several losses up, or open a scale_loss for each"
        )
    if amp.is_open:
        raise RuntimeError(
            "scale_loss: another scale_loss of the same initialize is open, and gradients of both would carry the "
            "scale: expected one after the other, each with its own scaled_loss.backward(); for one backward pass of "
            "several losses add them up first"
        )


def _members(amp: Amp) -> list[Prepared]:
    """What the optimizers of a call carry, those that are alive."""
    alive = [reference() for reference in amp.members]
    return [one for one in alive if isinstance(one, Prepared) and one.amp is amp]


def _wide(loss: Tensor) -> Tensor:
    return loss.float() if loss.dtype in HALF_DTYPES else loss
