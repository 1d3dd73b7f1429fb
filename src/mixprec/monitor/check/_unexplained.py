"""A step that is not finite and that no detector has explained."""

from __future__ import annotations

from .._finding import Finding
from ._place import LOSS
from ._setting import Setting
from ._watch import StepWatcher
from .detectors import Step


def unexplained(setting: Setting, step: Step, watcher: StepWatcher) -> Finding | None:
    """The finding where loss or gradients are not finite; it names the first operand that was given so."""
    if step.is_finite:
        return None
    given = watcher.first_nonfinite
    broken = [name for name, grad in step.gradients.items() if not bool(grad.isfinite().all())]
    what = f"the loss is {float(step.loss):g}" if not bool(step.loss.isfinite()) else f"gradients are not: {broken[0]}"
    cause = f"; {given.site}{given.at} got inf or NaN from outside (data, a buffer, a weight)" if given else ""
    return Finding(
        step=setting.step,
        name="not finite",
        severity="fault",
        site=given.site if given else LOSS if not broken else broken[0],
        message=f"the step is not finite: {what}{cause}",
        evidence={"loss": float(step.loss), "gradients not finite": len(broken)},
        threshold="a finite loss and finite gradients",
        remedy="look at the data and the weights that it got: torch.isfinite(x).all()"
        if given
        else "train one step in a session: its locator names the first bad tensor",
    )
