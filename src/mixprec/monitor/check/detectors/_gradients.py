"""Gradients that fp16 makes zero at this loss scale, and the scale that would keep them."""

from __future__ import annotations

from collections.abc import Iterable

from ..._finding import Finding
from ._detector import Detector, Step

#: Share of the non-zero gradients that may be flushed, and from which on it is a fault (1.7 % of them cost nothing in
#: our GPT, 30 % cost 0.006 nats, 97 % cost 0.4).
SOME, MOST = 0.1, 0.5


class GradientDetector(Detector):
    """Gradients that are zero at this loss scale and are not at a larger one that still fits.

    Measured by a second backward pass through the same graph at the larger scale: the largest power of two that keeps
    the largest fp16 gradient below a sixteenth of 65,504. A warning from 10 % of the gradients on, a fault from 50 %.
    """

    def end(self, step: Step) -> Iterable[Finding]:
        """The gradients of both passes."""
        lost, kept = (sum(pair[i] for pair in step.flushed.values()) for i in (0, 1))
        if not kept or lost / kept < SOME:
            return
        share = lost / kept
        site, (n, of) = max(step.flushed.items(), key=lambda item: item[1][0] / max(item[1][1], 1))
        scale = self.setting.loss_scale
        yield Finding(
            step=self.setting.step,
            name="gradients flushed to zero",
            severity="fault" if share >= MOST and not self.setting.is_dynamic else "warning",
            site=f"{site} (gradient)",
            message=f"{100 * share:.1f} % of the gradients are 0 in fp16 at loss scale {scale:g} and are not at "
            f"{step.larger:g}; most in {site} ({100 * n / max(of, 1):.1f} %)",
            evidence={"share flushed": share, "loss scale": scale, "largest fp16 gradient": step.fp16_amax},
            threshold=f"{SOME:g} of the non-zero gradients (a fault from {MOST:g} on)",
            remedy=f"a loss scale of {step.larger:g}, or a dynamic one that begins there"
            + ("" if scale > 1 else " (torch.amp.GradScaler in a loop of your own)"),
            rule=f'[loss_scale]\nkind = "dynamic"\ninitial = {step.larger:.1f}\n',
        )
