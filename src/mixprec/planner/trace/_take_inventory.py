"""What one training step of a model does, from running it once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from .._inventory import KERNEL_UPDATE, Inventory, Parameter, Traffic
from ._sandbox import Loss, Sandbox, samples_of, traced
from ._step_trace import StepTrace, short_dtype
from ._traffic import tensor_bytes, tensors_in

MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]
_NO_PRODUCT = (
    "{}: its training step multiplies no matrices (no linear layer, no convolution, no attention), so that there is "
    "nothing to choose a precision for; check that the loss runs the model"
)


def take_inventory(model: nn.Module, loss: Loss, batch: Any, *, optimizer: MakeOptimizer | None = None) -> Inventory:
    """Trace one training step: every matrix product by site, what else moves bytes, and the parameters.

    The step runs on a copy whose tensors have shapes and no values (torch's fake tensors), in a fraction of a second
    and without memory, so models of any size and on the meta device do. A model that asks for values (``.item()``,
    routing by data) runs one real step on a copy instead, which a note says. The model itself is not touched.

    The FLOPs are those that ``Session.audit()`` counts. A fused attention kernel multiplies the scores again in its
    backward pass: its ``qk`` has one more ``fprop`` there.

    Args:
        model: any that converts; converted already, it is traced as it was before.
        loss: ``loss(model, batch)``, runs the forward pass and returns one number.
        batch: nested containers of tensors, as the loss takes it.
        optimizer: ``optimizer(parameters)``, makes a new one, of which the second step is traced; ``None``: none.

    Raises:
        ValueError: a step without a matrix product, or a loss that is not one number with a graph.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> found = take_inventory(model, lambda model, x: model(x).square().mean(), torch.ones(16, 8))
        >>> [(p.site, p.gemm, p.m, p.n, p.k) for p in found.products][:2]
        [('0', 'fprop', 16, 4, 8), ('2', 'fprop', 16, 2, 4)]
        >>> found.samples, found.flops
        (16, 2816)
    """
    (trace, parameters, update), notes = traced(model, batch, lambda sandbox: _trace(sandbox, loss, optimizer))
    if not trace.products:
        raise ValueError(_NO_PRODUCT.format(type(model).__name__))
    return Inventory(
        products=trace.products,
        traffic=(*trace.traffic, *update),
        parameters=parameters,
        samples=samples_of(batch),
        tokens=trace.tokens,
        notes=notes,
    )


def _trace(
    sandbox: Sandbox, loss: Loss, optimizer: MakeOptimizer | None
) -> tuple[StepTrace, tuple[Parameter, ...], tuple[Traffic, ...]]:
    trace = StepTrace(sandbox.model)
    with trace:
        value = loss(sandbox.model, sandbox.batch)
        check_loss(value)
        value.backward()
    update: tuple[Traffic, ...] = ()
    if optimizer is not None:
        made = optimizer(sandbox.model.parameters())
        made.step()  # makes its state
        with trace, trace.update():
            made.step()
        if not any(traffic.pass_ == "update" for traffic in trace.traffic):
            update = _kernel_update(made)
    return trace, parameters_of(sandbox.model), update


def _kernel_update(optimizer: Optimizer) -> tuple[Traffic, ...]:
    """Of an optimizer whose step is one kernel and no operators: weights, moments and gradients once each."""
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    kept = sum(tensor_bytes(p) for p in parameters)
    kept += sum(tensor_bytes(t) for p in parameters for t in tensors_in(list(optimizer.state.get(p, {}).values())))
    gradients = sum(tensor_bytes(p.grad) for p in parameters if p.grad is not None)
    if not parameters:
        return ()
    return (
        Traffic(
            site="<optimizer>",
            operation=KERNEL_UPDATE,
            pass_="update",
            read=kept + gradients,
            written=kept,
            calls=len(parameters),
        ),
    )


def check_loss(value: object) -> None:
    """Refuse what no backward pass begins at.

    Raises:
        ValueError: it is no tensor of one element with a graph.
    """
    if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
        got = f"shape {list(value.shape)}, requires_grad={value.requires_grad}" if isinstance(value, Tensor) else value
        raise ValueError(f"loss(model, batch) returned {got}, expected one number with a graph: return the mean loss")


def parameters_of(model: nn.Module) -> tuple[Parameter, ...]:
    """The parameters of a model, each once, with all its names."""
    names: dict[nn.Parameter, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return tuple(
        Parameter(name=first, also=tuple(also), shape=tuple(parameter.shape), dtype=short_dtype(parameter))
        for parameter, (first, *also) in names.items()
    )
