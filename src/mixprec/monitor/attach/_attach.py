"""``mixprec.monitor(model, optimizer)``: watch a loop, convert nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from .._monitoring import Monitoring
from ._monitor import Monitor


def attach(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer] | None = None,
    options: Monitoring | None = None,
    *,
    run: str | Path | None = None,
    scaler: Any = None,
    seed: int = 0,
) -> Monitor:
    """Watch the training of a model in somebody else's loop: nothing is converted, no number changes.

    Every so many steps the tensors of plain layers, of torchao's and of Transformer Engine's modules are sampled alike
    (input, weight, output, gradient of the output), and those of a converted model before each cast; of every
    parameter the gradient and the update. Losses, norms and scales are held against thresholds in each step.

    Args:
        model: plain, converted, or wrapped by DDP or ``torch.compile``.
        optimizer: of any class, several as a list or by name; Accelerate's wrapper too. ``None``: a step is a training
            pass then, and gradients are not seen.
        options: what is watched, and how often; left out: the defaults of ``Monitoring``.
        run: a folder for records; where a monitor wrote before, the records go on.
        scaler: the loop's ``torch.amp.GradScaler``: skipped steps and loss scales are told.
        seed: told in the records.

    Returns:
        The monitor; ``remove()``, or leaving it as a context manager, takes everything off again.

    Raises:
        TypeError: no model, optimizer, options or scaler.
        ValueError: an optimizer without a parameter of the model; a run folder of something else, or that is written
            already.

    Example:
        >>> import torch, mixprec.monitor
        >>> model = nn.Linear(4, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> with mixprec.monitor(model, optimizer) as monitor:
        ...     monitor.loss(model(torch.ones(8, 4)).square().mean()).backward()
        ...     _ = optimizer.step()
        >>> monitor.applied, sorted({record.role for record in monitor.statistics()})
        (1, ['grad_output', 'gradient', 'input', 'output', 'weight'])
    """
    if options is not None and not isinstance(options, Monitoring):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
        raise TypeError(
            f"monitor: options is a {type(options).__name__}, expected a mixprec.monitor.Monitoring, e.g. "
            "Monitoring(every=10)"
        )
    return Monitor(model, optimizer, Monitoring() if options is None else options, run=run, scaler=scaler, seed=seed)
