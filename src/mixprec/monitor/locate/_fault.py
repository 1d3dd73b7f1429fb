"""A fault: the first operation that made what is not finite out of what was."""

from __future__ import annotations

from dataclasses import dataclass

from .._finding import Finding
from ._causes import CAUSES
from ._values import TensorFacts

#: The site of what runs in no module of the model.
LOSS = "<loss>"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Where a step went wrong first.

    Attributes:
        step: applied steps before it.
        site: module path; ``"<loss>"`` for what was computed outside of the model, ``"<input>"`` for its arguments, or
            a parameter's name.
        operation: the operator's name, or the cast; empty for inputs, weights and the loss.
        direction: ``"forward"`` or ``"backward"``.
        operand: role (``"input"``, ``"weight"``, ``"grad_output"``) or name of the operand; ``"output"`` for a result.
        kind: ``"NaN"``, ``"inf"``, ``"-inf"``, or ``"saturated"``.
        made: what came out.
        operands: what went in, by name.
        limit: of the format that was left; ``None`` where none was.
        format: that format.
        cause: a key of ``CAUSES``.
        detail: what the cause is about, in words; may be empty.
        is_ordinary: whether nothing is wrong: a dynamic loss scale has probed upward.
        micro_batch: counted from 0.
    """

    step: int
    site: str
    operation: str
    direction: str
    operand: str
    kind: str
    made: TensorFacts | None
    operands: tuple[tuple[str, TensorFacts], ...] = ()
    limit: float | None = None
    format: str = ""
    cause: str = "unknown"
    detail: str = ""
    is_ordinary: bool = False
    micro_batch: int = 0

    @property
    def is_of_loss(self) -> bool:
        """Whether it came from outside of the model."""
        return self.site == LOSS

    def __str__(self) -> str:
        where = f"{self.site} ({self.operand})" if self.operand else self.site
        limit = f", {self.format} limit {self.limit:g}" if self.limit is not None else ""
        return f"{self.kind} in {where}{limit}"

    def finding(self) -> Finding:
        """The fault as a finding: what, where, why, and what to do."""
        cause = CAUSES[self.cause]
        made = f": {self._how()}" if self.operation else ""
        why = f"; likely cause: {cause.words}" + (f" ({self.detail})" if self.detail else "")
        ordinary = "; nothing is wrong: a dynamic loss scale finds its level so" if self.is_ordinary else ""
        evidence: dict[str, float | str] = {"cause": self.cause, "direction": self.direction}
        if self.made is not None:
            evidence |= {"result": str(self.made), "NaN": float(self.made.nans), "inf": float(self.made.positive)}
        evidence |= {name: str(facts) for name, facts in self.operands}
        return Finding(
            step=self.step,
            name="overflow of the loss scale" if self.is_ordinary else self.cause,
            severity="note" if self.is_ordinary else "fault",
            site=f"{self.site} ({self.operand})" if self.operand else self.site,
            message=f"{self}{made}{why}{ordinary}",
            evidence=evidence,
            threshold="finite" if self.limit is None else f"{self.format} limit {self.limit:g}",
            remedy="" if self.is_ordinary else cause.remedy,
            rule=self._rule(cause.keeps_wide),
        )

    def _how(self) -> str:
        values = ", ".join(f"{name} {facts}" for name, facts in self.operands)
        went = "the backward pass" if self.direction == "backward" else "the forward pass"
        return f"`{self.operation}` of {went} made it of {values}" if values else f"`{self.operation}` of {went}"

    def _rule(self, keeps_wide: bool) -> str:
        if not keeps_wide or self.is_ordinary or self.format in ("", "fp32", "bf16", "fp16"):
            return ""
        return f'[[rules]]\nmatch = "{self.site}"\nprecision = "compute"\n'
