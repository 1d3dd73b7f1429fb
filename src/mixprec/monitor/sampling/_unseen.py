"""Why a sampled step has shown no tensor of a pass, in words."""

from __future__ import annotations

from .._finding import Finding

_REST = "; gradients and updates are sampled all the same"
_NO_PASS = (
    "no forward pass of the model was seen in a sampled step: code that torch.compile has compiled shows nobody its "
    "tensors, nor does one that does not call the model itself"
)
_NO_LAYER = "no layer of the model is looked at: none that `sites` names has a tensor called weight of its own"
_NOT_CALLED = (
    "of {} that are looked at none was called in a sampled step: their weights are used otherwise, or compiled code "
    "calls them"
)
_UNCOMPILED = "to sample the rest, run a step uncompiled: under torch.compiler.set_stance('force_eager')"
_LAYERS = "to sample the rest, let torch's own layers hold the weights, or widen sites="
_CALLS = f"to sample the rest, call the layers themselves; where code is compiled: {_UNCOMPILED.partition(', ')[2]}"


def unseen(step: int, *, passes: int, layers: int) -> Finding:
    """A note for a sampled step.

    Args:
        step: applied steps before it.
        passes: of the model, that were seen.
        layers: that are looked at.

    Example:
        >>> print(unseen(0, passes=1, layers=0).message.partition(":")[0])
        no layer of the model is looked at
    """
    if not passes:
        message, remedy = _NO_PASS, _UNCOMPILED
    elif not layers:
        message, remedy = _NO_LAYER, _LAYERS
    else:
        message, remedy = _NOT_CALLED.format("1 layer" if layers == 1 else f"{layers} layers"), _CALLS
    return Finding(step=step, name="not watched", severity="note", message=message + _REST, remedy=remedy)
