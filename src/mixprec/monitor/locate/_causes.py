"""Likely causes of a value that is not finite: the documented list, and the test for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ._values import TensorFacts, limit_of


@dataclass(frozen=True)
class Cause:
    """A cause in words, and what to do about it; whether a rule that keeps the layer wide helps."""

    words: str
    remedy: str
    keeps_wide: bool = False


CAUSES: Mapping[str, Cause] = MappingProxyType(
    {
        "bad input": Cause("the batch", "look at this batch, and leave it out or mend it where it is loaded"),
        "diverged weights": Cause(
            "the weights diverged before this step",
            "go back to a checkpoint, with a smaller learning rate or a clip_norm",
        ),
        "flipped bit": Cause(
            "one element of a weight lies far from all others, as after a flipped exponent bit",
            "go back to a checkpoint; should it come again, test the memory of this machine",
        ),
        "activation overflow": Cause(
            "an activation beyond the format's range",
            "recipe 'bf16', whose range is fp32's; or a norm before this layer, smaller weights, or a scaled cast",
            keeps_wide=True,
        ),
        "hard-coded mask": Cause(
            "a mask's large negative constant added to scores leaves the range",
            "mask by masked_fill with -inf where a row keeps an element, or by torch.finfo(scores.dtype).min / 2",
        ),
        "masked row": Cause(
            "a softmax over a row in which everything is masked",
            "keep one element of each row, or set those rows to zero after the softmax",
        ),
        "log of zero": Cause(
            "the logarithm of a zero, which small values may have been flushed to",
            "take log_softmax or logits in the loss; or add an eps that the format holds (fp16: from 6e-8 on)",
        ),
        "log of a negative number": Cause("the logarithm of a negative number", "clamp its argument"),
        "division by zero": Cause(
            "a division by zero, which small values may have been flushed to",
            "add an eps that the format holds (fp16: from 6e-8 on), or divide in fp32",
        ),
        "flushed variance": Cause(
            "the division by a variance or norm that is zero in this format",
            "compute it in fp32, or with an eps that the format holds (fp16: from 6e-8 on)",
        ),
        "root at zero": Cause(
            "the derivative of a root (or norm) at zero, which is infinite", "add an eps under the root"
        ),
        "root of a negative number": Cause("the root of a negative number", "clamp its argument"),
        "indeterminate": Cause("inf - inf, 0 * inf or 0 / 0", "look at the operands"),
        "loss scale too high": Cause(
            "the loss scale is too high for these gradients",
            "a dynamic loss scale, or a smaller static one",
        ),
        "gradient overflow": Cause(
            "a gradient beyond the format's range at loss scale 1 too",
            "recipe 'bf16', whose range is fp32's; or a smaller loss, a mean instead of a sum",
            keeps_wide=True,
        ),
        "loss": Cause(
            "the loss, which is computed outside of the model",
            "session.locate(lambda: loss_fn(model(x), y)) looks into it; losses of logits (cross_entropy, "
            "binary_cross_entropy_with_logits) stand any logit",
        ),
        "saturated delayed scale": Cause(
            "a delayed scale that is older than this tensor's range",
            "a current scale (the cast without `delayed`), or a shorter history with a margin",
            keeps_wide=True,
        ),
        "unknown": Cause("not known", "look at the operands"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Made:
    """An operator's result that is not finite, and what it was made of.

    Attributes:
        operation: the operator's name.
        direction: ``"forward"`` or ``"backward"``.
        origin: the operator of the forward pass whose gradient this is; empty in the forward pass.
        result: what came out.
        operands: what went in, by name.
        lineage: the operators that made the operands, the last ones.
        module: class name of the module.
    """

    operation: str
    direction: str
    origin: str
    result: TensorFacts
    operands: tuple[tuple[str, TensorFacts], ...]
    lineage: frozenset[str]
    module: str


_SOFTMAX = ("softmax", "scaled_dot_product")
_LOGS = frozenset({"log", "log2", "log10", "log1p", "logit", "xlogy"})
_SUMS = ("add", "sub", "rsub", "masked_fill", "where", "baddbmm", "addmm")
_VARIANCES = frozenset({"var", "std", "var_mean", "std_mean", "norm", "linalg_vector_norm", "sqrt", "mean", "rsqrt"})
_NORMS = ("layer_norm", "batch_norm", "group_norm", "rms_norm", "renorm")
#: A finite operand this near to the format's end (as a share of it) is a mask's constant.
_MASK = 0.1


def cause_of(made: Made) -> str:
    """The first cause whose test holds."""
    return next((name for name, test in _TESTS if test(made)), "unknown")


def _named(made: Made, words: tuple[str, ...]) -> bool:
    return any(word in made.operation for word in words)


def _masked_row(made: Made) -> bool:
    masked = [facts for _, facts in made.operands if facts.negative]
    # Written out, a softmax takes the row's largest element away: -inf - -inf.
    by_hand = made.operation.startswith("sub") and len(masked) == 2
    return made.result.nans > 0 and bool(masked) and (_named(made, _SOFTMAX) or by_hand)


def _mask_constant(made: Made) -> bool:
    limit = limit_of(made.result.dtype)
    lowest = min((facts.low for _, facts in made.operands), default=0.0)
    is_low = limit is not None and lowest <= -_MASK * limit
    return made.result.negative > 0 and _named(made, _SUMS) and is_low and made.result.positive == 0


def _first(made: Made) -> TensorFacts | None:
    return made.operands[0][1] if made.operands else None


def _log(made: Made) -> bool:
    if made.direction == "backward":
        return made.origin in _LOGS
    first = _first(made)
    is_log = made.operation.rstrip("_") in _LOGS
    return first is not None and is_log and first.low >= 0.0


def _negative_log(made: Made) -> bool:
    first = _first(made)
    return (
        first is not None and made.operation.startswith("log") and "softmax" not in made.operation and first.low < 0.0
    )


def _divides(made: Made) -> bool:
    if made.operation.startswith(("reciprocal", "rsqrt")):
        return made.operands[0][1].zeros > 0 if made.operands else False
    if made.operation.startswith(("div", "true_divide", "remainder", "fmod")):
        return made.operands[-1][1].zeros > 0 if made.operands else False
    return made.operation.startswith("pow") and made.direction == "forward" and any(f.zeros for _, f in made.operands)


def _variance(made: Made) -> bool:
    if _named(made, _NORMS):
        return made.result.dtype != "fp16" or made.result.nans > 0 or all(f.is_finite for _, f in made.operands)
    is_root = made.operation.startswith("rsqrt")
    return _divides(made) and (is_root or bool(made.lineage & _VARIANCES))


def _root(made: Made) -> bool:
    is_root = made.origin in (
        "sqrt",
        "linalg_vector_norm",
        "norm",
        "pow",
        "cdist_forward",
        "_cdist_forward",
        "std",
        "rsqrt",
    )
    zeros = any(facts.zeros for _, facts in made.operands)
    return made.direction == "backward" and is_root and zeros


def _negative_root(made: Made) -> bool:
    first = _first(made)
    is_root = made.operation.startswith(("sqrt", "rsqrt"))
    return made.direction == "forward" and is_root and first is not None and first.low < 0.0


def _overflow(direction: str) -> Callable[[Made], bool]:
    return lambda made: made.direction == direction and made.result.positive + made.result.negative > 0


def _indeterminate(made: Made) -> bool:
    return made.result.nans > 0


_TESTS: tuple[tuple[str, Callable[[Made], bool]], ...] = (
    ("masked row", _masked_row),
    ("log of zero", _log),
    ("log of a negative number", _negative_log),
    ("root of a negative number", _negative_root),
    ("flushed variance", _variance),
    ("root at zero", _root),
    ("division by zero", _divides),
    ("hard-coded mask", _mask_constant),
    ("activation overflow", _overflow("forward")),
    ("gradient overflow", _overflow("backward")),
    ("indeterminate", _indeterminate),
)
