"""The check of a model that no session trains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn
from torch.optim import Optimizer

from ...nn import conversion_of
from ._preflight import Preflight
from ._run import run_check
from ._setting import Setting


def check_step(
    model: nn.Module,
    step: Callable[[], Tensor],
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    *,
    loss_scale: float = 1.0,
    is_dynamic: bool = False,
    clip_norm: float | None = None,
) -> Preflight:
    """Run one step watched and tell what will go wrong when this model trains so.

    Forward, loss and backward, and nothing is changed: weights, buffers, gradients, random states and what modules
    hold are as before. (What ``step`` itself takes from outside, a batch of an iterator, is taken.) Nothing is
    converted; a model that ``mixprec.convert`` has converted is checked under its recipe.

    Args:
        model: as it is trained: on its device, in training mode, in its dtypes.
        step: runs the forward pass, under the loop's own autocast, and returns the loss, which is one number.
        optimizer: that will train it, or several; none: weights and their updates are not looked at.
        loss_scale: what the loop multiplies the loss by (``scaler.get_scale()``).
        is_dynamic: whether that follows the gradients, as ``torch.amp.GradScaler``'s does.
        clip_norm: largest norm of the gradients in the loop.

    Returns:
        The findings, the faults first; ``print`` them.

    Raises:
        TypeError: a model or a step that is none.
        ValueError: a loss that is not one number with a graph.

    Example:
        >>> import torch
        >>> model = nn.Sequential(nn.Linear(1, 1), nn.Sigmoid()).bfloat16()
        >>> x, y = torch.full((1, 1), 10.0, dtype=torch.bfloat16), torch.zeros(1, 1, dtype=torch.bfloat16)
        >>> found = check_step(model, lambda: nn.functional.binary_cross_entropy(model(x), y).float())
        >>> found[0].name, found[0].severity, found[0].site
        ('probabilities into a loss', 'fault', '<loss> (binary_cross_entropy)')
    """
    if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
        raise TypeError(f"check: model is {type(model).__name__}, expected torch.nn.Module")
    if not loss_scale > 0:
        raise ValueError(f"check: loss_scale is {loss_scale}, expected a positive number")
    optimizers = () if optimizer is None else (optimizer,) if isinstance(optimizer, Optimizer) else tuple(optimizer)
    found = [c for c in map(conversion_of, model.modules()) if c is not None]
    setting = Setting(
        model=model,
        optimizers=optimizers,
        conversion=found[0] if found else None,
        loss_scale=loss_scale,
        is_dynamic=is_dynamic,
        clip_norm=clip_norm,
    )
    return run_check(setting, step)
