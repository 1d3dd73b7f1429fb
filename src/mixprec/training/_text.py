"""A session in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loss_scaling import scale_text

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
    facts += [] if session.clip_norm is None else [f"clip norm {session.clip_norm:g}"]
    line = f"session of recipe {recipe.name}: {', '.join(facts)}"
    if session.applied or session.skipped:
        line += f"; steps: {session.applied} applied, {session.skipped} skipped"
    return "\n".join([line, *(f"  note: {note}" for note in session.notes)])
