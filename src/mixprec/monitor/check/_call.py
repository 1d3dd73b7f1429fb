"""One operation of a watched step, as detectors see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...records import Severity
from .._finding import Finding
from ._place import Place
from ._setting import Setting
from ._values import Facts, is_measurable

_SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}


def short(dtype: torch.dtype) -> str:
    """A dtype's short name.

    Example:
        >>> short(torch.bfloat16), short(torch.int64)
        ('bf16', 'int64')
    """
    return _SHORT.get(dtype, str(dtype).removeprefix("torch."))


def elsewhere(remedy: str) -> str:
    """A remedy for what the recipe makes up for already."""
    return f"nothing under this recipe; under torch alone: {remedy}"


@dataclass(frozen=True, kw_only=True)
class Call:
    """One operation, after it has run.

    Attributes:
        name: as torch's operators are called (``add``, ``masked_fill_``, ``_softmax``).
        library: the operators' namespace (``aten``, ``mixprec``).
        args: as it got them.
        kwargs: likewise.
        inputs: floating tensors among them, with what was known of each before the operation.
        outputs: floating tensors that came of it, with what is known of each now.
        place: where it ran.
        needs_grad: whether gradients flow through it, or it computes them.
        node: the running node of the backward pass.
        compute: the 16-bit dtype that the recipe computes in, or that was seen in this step; ``None``: neither.
        setting: what the check is about.
    """

    name: str
    library: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    inputs: tuple[tuple[Tensor, Facts], ...]
    outputs: tuple[tuple[Tensor, Facts], ...]
    place: Place
    needs_grad: bool
    node: object
    compute: torch.dtype | None
    setting: Setting

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers among the arguments."""
        return tuple(float(a) for a in (*self.args, *self.kwargs.values()) if type(a) in (int, float))

    @property
    def result(self) -> tuple[Tensor, Facts] | None:
        """The first floating tensor that came of it."""
        return self.outputs[0] if self.outputs else None

    @property
    def is_finite_before(self) -> bool:
        """Whether every operand was finite, numbers included."""
        return all(f.is_finite for _, f in self.inputs) and all(abs(n) < float("inf") for n in self.numbers)

    def facts(self, index: int) -> Facts | None:
        """What was known of the positional argument, where that is a floating tensor."""
        x = self.args[index] if index < len(self.args) else None
        return next((f for t, f in self.inputs if t is x), None)

    def finding(
        self,
        severity: Severity,
        name: str,
        message: str,
        *,
        evidence: Mapping[str, float | str],
        threshold: str,
        remedy: str,
        rule: str = "",
    ) -> Finding:
        """A finding about this operation."""
        line = {"line": self.place.line} if self.place.line else {}
        return Finding(
            step=self.setting.step,
            name=name,
            severity=severity,
            site=self.place.site,
            message=f"{message}{self.place.at}",
            evidence={**evidence, **line},
            threshold=threshold,
            remedy=remedy,
            rule=rule,
        )


def floating(values: Any) -> Iterator[Tensor]:
    """The floating tensors among values, those in lists too."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from floating(value)
        elif is_measurable(value):
            yield value
