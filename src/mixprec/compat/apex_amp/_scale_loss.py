"""The backward pass at a loss's scale, and the parameters that an optimizer updates."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer

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
    nothing: it sees no gradient.

    Args:
        loss: one number with a graph.
        optimizers: one that ``initialize`` has returned, or a list: those that the backward pass reaches.
        loss_id: which loss this is, where ``initialize`` was told ``num_losses``.
        model: taken and not needed.
        delay_unscale: leave the scale in: another backward pass adds to these gradients at the same scale.
        delay_overflow_check: leave the scale as it is until the step.

    Raises:
        TypeError: no optimizer.
        RuntimeError: an optimizer that has not been through ``initialize``.
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
    if _is_bare(ready):
        yield loss.float()
        return
    scaled = amp.loss(loss_id)
    scaled.settle()
    scale = scaled.state.scale
    for one in ready:
        one.begin_backward(scale)
    try:
        yield loss.float() * scale
    except BaseException:
        for one in ready:
            one.abandon()
        raise
    if delay_unscale:
        for one in ready:
            one.end_with_scale(scale)
        return
    found = [one for one in ready if one.end_backward(scale)]
    scaled.note(bool(found))
    for one in ready if found else ():
        one.skip_next_step()
    if not delay_overflow_check:
        scaled.settle()


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


def _common(ready: list[Prepared]) -> Any:
    found = {id(one.amp): one.amp for one in ready}
    if len(found) != 1:
        raise ValueError(
            f"scale_loss: got {len(ready)} optimizers of {len(found)} calls of initialize, expected those of one: give "
            "all models and optimizers to one initialize, or scale the loss for each call's optimizers"
        )
    return next(iter(found.values()))


def _is_bare(ready: list[Prepared]) -> bool:
    """Whether there is nothing to scale and nothing to widen: the script's own fp32, as it would be without us."""
    properties = ready[0].amp.properties
    return properties is not None and properties.loss_scale == 1.0 and not properties.master_weights
