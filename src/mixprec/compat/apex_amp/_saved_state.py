"""The scales of all losses, as a checkpoint keeps them."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any, cast

from torch.optim import Optimizer

from ...loss_scaling import ScaleState
from ._losses import Amp
from ._prepared import ATTRIBUTE, prepared

_KEY = "loss_scaler{}"


def state_dict(optimizer: Optimizer | None = None) -> dict[str, dict[str, float | int]]:
    """Scale, and applied steps since its last change, of every loss.

    Args:
        optimizer: one that ``initialize`` has returned; may be left out where one call's optimizers are alive.

    Returns:
        ``{"loss_scaler0": {"loss_scale": ..., "unskipped": ...}, ...}``, apex's own form.

    Raises:
        RuntimeError: no optimizer has been through ``initialize``, or those of several calls are alive.

    Example:
        >>> import torch
        >>> from mixprec.compat import apex_amp as amp
        >>> model = torch.nn.Linear(2, 1)
        >>> model, optimizer = amp.initialize(model, torch.optim.SGD(model.parameters(), lr=0.5), opt_level="O1")
        >>> amp.state_dict(optimizer)
        {'loss_scaler0': {'loss_scale': 65536.0, 'unskipped': 0}}
    """
    losses = _amp("state_dict", optimizer).losses
    return {
        _KEY.format(loss.number): {"loss_scale": loss.state.scale, "unskipped": loss.state.good_steps}
        for loss in losses
    }


def load_state_dict(state_dict: Mapping[str, Any], optimizer: Optimizer | None = None) -> None:
    """Continue from a ``state_dict()``, apex's own too; nothing advances.

    Load the model's and the optimizer's own states after ``initialize`` too.

    Raises:
        RuntimeError: as ``state_dict``.
        TypeError: no mapping.
        ValueError: a state of other losses, or with a scale that no run can use.
    """
    if not isinstance(cast("object", state_dict), Mapping):
        raise TypeError(
            f"load_state_dict: got {state_dict!r} ({type(state_dict).__name__}), expected what amp.state_dict() gave; "
            "a checkpoint without it was saved without amp: leave the call out"
        )
    losses = _amp("load_state_dict", optimizer).losses
    expected = [_KEY.format(loss.number) for loss in losses]
    if sorted(state_dict) != sorted(expected):
        raise ValueError(
            f"load_state_dict: got {', '.join(map(str, state_dict)) or 'nothing'}, expected "
            f"{', '.join(expected) or 'nothing'}: call initialize with the num_losses and enabled of the run that "
            "saved it"
        )
    states = [_state(key, state_dict[key]) for key in expected]
    for loss, state in zip(losses, states, strict=True):
        loss.state = state


def _state(key: str, saved: Any) -> ScaleState:
    fields = saved if isinstance(saved, Mapping) else {}
    scale, unskipped = fields.get("loss_scale"), fields.get("unskipped")
    if (
        not isinstance(scale, int | float)
        or not isinstance(unskipped, int)
        or not (0 < scale <= 2.0**127 and unskipped >= 0)
    ):
        raise ValueError(
            f"load_state_dict: {key} is {saved!r}, expected {{'loss_scale': a number above 0 and at most 2^127, "
            "'unskipped': a count}"
        )
    return ScaleState(float(scale), unskipped)


def _amp(what: str, optimizer: Optimizer | None) -> Amp:
    if optimizer is not None:
        return prepared(optimizer).amp
    found = _alive()
    if len(found) > 1:
        gc.collect()  # optimizers that nobody holds any more may not have been freed yet
        found = _alive()
    if len(found) == 1:
        return next(iter(found.values()))
    told = (
        f"optimizers of {len(found)} calls of initialize are" if found else "no optimizer that initialize returned is"
    )
    raise RuntimeError(f"{what}: {told} alive: expected those of one call; say which, {what}(..., optimizer=optimizer)")


def _alive() -> dict[int, Amp]:
    optimizers = [o for o in gc.get_objects() if issubclass(type(o), Optimizer)]
    return {id(p.amp): p.amp for p in (vars(o).get(ATTRIBUTE) for o in optimizers) if p is not None}
