"""The causes that a fault is told with, each with its remedy: the list that the documentation prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """Why a value went bad.

    Attributes:
        name: as findings tell it.
        remedy: what to do.
    """

    name: str
    remedy: str


BAD_INPUT = Cause("bad input data", "look at this batch: clean or drop such samples, or scale them into range")
DIVERGED = Cause(
    "diverged weights", "go back to a checkpoint from before, with a smaller learning rate or a tighter clip norm"
)
FLIPPED_BIT = Cause(
    "flipped exponent bit in a weight", "restore this weight from a checkpoint, and test the machine's memory"
)
MASKED_ROW = Cause(
    "-inf row",
    "leave one place of each row unmasked, or mask by torch.where / masked_fill after the scores are fp32, "
    "with a value well inside the format (-1e4 in fp16)",
)
FLUSHED_VARIANCE = Cause(
    "division by a flushed variance", "compute the norm in fp32, with an eps that its dtype holds (1e-5 or more)"
)
ZERO = Cause("log or division of a zero", "add an eps that the dtype holds before it, or use a form in logits")
FLUSHED_ZERO = Cause(
    "log or division of a flushed zero", "keep what comes before it in fp32: a cast has flushed it to zero"
)
DERIVATIVE_AT_ZERO = Cause(
    "derivative at zero", "add an eps inside of the root or norm: its derivative at zero is infinite"
)
OUTSIDE_DOMAIN = Cause("outside of the function's domain", "clamp its input to where the function is defined")
ACTIVATION_OVERFLOW = Cause(
    "activation overflow", "run this module in bf16 or fp32 (a rule of the recipe), or make its input smaller"
)
GRADIENT_OVERFLOW = Cause(
    "gradient overflow", "run this module in bf16 or fp32 (a rule of the recipe), or make its gradient smaller"
)
LOSS_SCALE = Cause("loss scale too high", "give a smaller loss scale, or a dynamic one")
SATURATED_SCALE = Cause(
    "saturated delayed scale", "use a current scale for this operand, or a history that is shorter or has a margin"
)
LAUNDERED = Cause(
    "infinity laundered by a saturating cast",
    "a saturating cast has made a finite number of it: mend what made the infinity, or let the cast propagate",
)
OTHER_RANK = Cause(
    "fault on another rank", "what this rank has made is finite: look at what the other ranks have found"
)
WRITTEN = Cause(
    "infinity written by the program",
    "the code gives an infinite number, or lets the -inf of a mask out (a masked target): mend this operation",
)
LOSS_FAULT = Cause("loss fault", "look into the loss: give it to monitor.locate(model, run_step), which watches inside")
UNKNOWN = Cause("not known", "look at the operation's operands")
NOT_REPRODUCED = Cause("not reproduced", "the step was replayed and the fault did not come again: look at the reason")

#: All of them, in the order of the documentation.
CAUSES: tuple[Cause, ...] = (
    BAD_INPUT,
    DIVERGED,
    FLIPPED_BIT,
    MASKED_ROW,
    FLUSHED_VARIANCE,
    ZERO,
    FLUSHED_ZERO,
    DERIVATIVE_AT_ZERO,
    OUTSIDE_DOMAIN,
    ACTIVATION_OVERFLOW,
    GRADIENT_OVERFLOW,
    LOSS_SCALE,
    SATURATED_SCALE,
    LAUNDERED,
    WRITTEN,
    OTHER_RANK,
    LOSS_FAULT,
    UNKNOWN,
    NOT_REPRODUCED,
)
