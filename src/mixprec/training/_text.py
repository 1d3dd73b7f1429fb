"""A session in words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import nn

from ..loss_scaling import scale_text
from ..optim import HALF_DTYPES, KeptWeights, NarrowedParameters
from ..specs import Recipe

if TYPE_CHECKING:
    from ._session import Session


def session_text(session: Session) -> str:
    """What holds in a session in one line, and one for each note.

    Example:
        >>> import torch
        >>> from mixprec.training import prepare
        >>> model = torch.nn.Linear(2, 1)
        >>> print(prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", clip_norm=1.0))
        session of recipe fp16: compute dtype fp16, loss scale 65536 (dynamic), clip norm 1
    """
    recipe, kind = session.recipe, session.recipe.loss_scale.kind
    facts = [f"compute dtype {recipe.compute_dtype}"]
    facts.append("no loss scale" if kind == "none" else f"loss scale {scale_text(session.loss_scale)} ({kind})")
    facts += [f"of '{name}' {scale_text(scale)}" for name, scale in list(session.loss_scales.items())[1:]]
    facts += [f"optimizers {', '.join(session.optimizers)}"] if len(session.optimizers) > 1 else []
    facts += [] if session.clip_norm is None else [f"clip norm {session.clip_norm:g}"]
    line = f"session of recipe {recipe.name}: {', '.join(facts)}"
    if session.applied or session.skipped:
        line += f"; steps: {session.applied} applied, {session.skipped} skipped"
    return "\n".join([line, *(f"  note: {note}" for note in session.notes)])


def narrowing_notes(model: nn.Module, recipe: Recipe, narrowed: NarrowedParameters | None) -> tuple[str, ...]:
    """What there is to tell of parameters that were brought to 16 bits.

    Args:
        model: after it.
        recipe: that wants it.
        narrowed: which ones; ``None`` where the recipe does not.
    """
    if narrowed is None:
        return ()
    if narrowed.names:
        count, dtype = len(narrowed.names), recipe.compute_dtype
        what = "1 fp32 parameter was" if count == 1 else f"{count} fp32 parameters were"
        return (f"{what} brought to {dtype}, as recipe {recipe.name} keeps them; restore() makes them fp32 again",)
    if any(p.dtype in HALF_DTYPES for p in model.parameters()):
        return ()
    return (f"recipe {recipe.name} keeps weights in 16 bits, and none of the model's can be: all train as they are",)


def plan_text(recipe: Recipe, kept: Mapping[str, KeptWeights], clip_norm: float | None) -> str:
    """What the weights depend on beside gradients: ranks that hold the same weights must have it alike.

    Args:
        recipe: of the session.
        kept: its optimizers.
        clip_norm: largest norm of the gradients, or ``None``.
    """
    digest = hashlib.sha256(recipe.to_toml().encode()).hexdigest()[:8]
    clip = "no clip norm" if clip_norm is None else f"clip norm {clip_norm:g}"
    text = f"recipe {recipe.name} ({digest}), {clip}"
    draws = recipe.weights == "stochastic" or recipe.moments.kind in ("e4m3", "dynamic")
    return f"{text}, seeds {', '.join(str(weights.seed) for weights in kept.values())}" if draws else text
