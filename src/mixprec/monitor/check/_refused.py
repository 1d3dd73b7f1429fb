"""Steps that torch refuses: its errors about dtypes, told as findings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from torch import nn

from .._finding import Finding
from ._place import LOSS, Place, is_inner, raising_line, shown
from ._setting import Setting
from ._watch import StepWatcher


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """One kind of error: what torch says, what it is, what to do."""

    pattern: str
    name: str
    what: str
    remedy: str


_REFUSALS = (
    _Refusal(
        pattern=r"cannot be converted to type .*without overflow",
        name="hard-coded mask",
        what="a constant does not fit the tensor's 16-bit dtype",
        remedy="fill with float('-inf'), or with torch.finfo(x.dtype).min, not with a number",
    ),
    _Refusal(
        pattern=r"binary_cross_entropy.*unsafe to autocast",
        name="probabilities into a loss",
        what="binary_cross_entropy gets probabilities under autocast",
        remedy="leave the sigmoid out and use BCEWithLogitsLoss on the logits",
    ),
    _Refusal(
        pattern=r"(scatter|index_\w+|Index put).*(dtype|type|scalar)|source and destination dtypes|"
        r"self and (source|src|value)",
        name="scatter into another dtype",
        what="values of one dtype are written into a tensor of another",
        remedy="bring the source to the buffer's dtype: source.to(buffer.dtype)",
    ),
    _Refusal(
        pattern=r"unsupported ScalarType (BFloat16|ComplexHalf|Half)",
        name="numpy of 16 bits",
        what="numpy has no such dtype",
        remedy="widen first: x.float().numpy()",
    ),
    _Refusal(
        pattern=r"(expected|must have|same) .*(dtype|type)|but found (Half|BFloat16|Float)|"
        r"not implemented for '(Half|BFloat16|ComplexHalf)'|dtypes? .*(mismatch|do not match)",
        name="dtypes that do not meet",
        what="an operation got tensors of several dtypes, or of one that it does not know",
        remedy="bring the operands to one dtype (x.to(weight.dtype)); in a custom autograd function put "
        "torch.amp.custom_fwd and custom_bwd on forward and backward",
    ),
)
_MENTIONS_DTYPE = re.compile(r"half|bfloat16|float16|dtype|scalar ?type|autocast", re.IGNORECASE)


def finding_of(error: Exception, setting: Setting, watcher: StepWatcher) -> Finding | None:
    """The finding that an exception is; ``None``: it says nothing about dtypes and is the caller's."""
    text = " ".join(str(error).split())
    if not isinstance(error, (RuntimeError, TypeError, ValueError)) or not _MENTIONS_DTYPE.search(text):
        return None
    refusal = next((r for r in _REFUSALS if re.search(r.pattern, text, re.IGNORECASE)), None)
    if refusal is None:
        return None
    operation, path = _operation(error), _path(error, watcher)
    place = Place(path, operation, raising_line(error.__traceback__))
    return Finding(
        step=setting.step,
        name=refusal.name,
        severity="fault",
        site=place.site,
        message=f"the step stops: {refusal.what}{place.at}: {text[:300]}",
        evidence={"error": type(error).__name__, "line": place.line},
        threshold="torch refuses it",
        remedy=refusal.remedy,
    )


def _path(error: Exception, watcher: StepWatcher) -> str:
    """The innermost module of the model that the exception passed through."""
    found, trace = LOSS, error.__traceback__
    while trace is not None:
        owner = trace.tb_frame.f_locals.get("self")
        path = watcher.path_of(owner) if isinstance(owner, nn.Module) else None
        found = path or found
        trace = trace.tb_next
    return found


def _operation(error: Exception) -> str:
    """The operation that refused, or what the user's innermost frame called as far as its name shows."""
    name, trace, is_after_user = "call", error.__traceback__, False
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "__torch_dispatch__" and isinstance(trace.tb_frame.f_locals.get("self"), StepWatcher):
            return shown(str(trace.tb_frame.f_locals.get("name", name)))
        inner = is_inner(code.co_filename)
        if inner and is_after_user and not code.co_name.startswith("_"):
            name = code.co_name
        is_after_user = not inner
        trace = trace.tb_next
    return name
