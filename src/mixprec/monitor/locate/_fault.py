"""The first bad value of a step: where, what made it, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...records import Severity
from .._finding import Finding
from .causes import Cause

INPUT, LOSS = "<input>", "<loss>"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The first operation of a step that made a non-finite or saturated value of finite operands.

    Attributes:
        site: module path; ``"<model>"`` for the root's own operations, ``"<loss>"`` for what comes after it, and
            ``"<input>"`` for what it was called with.
        operation: by its plain name, e.g. ``"addmm"``, or ``"mixprec::round"`` with its cast.
        direction: ``"forward"`` or ``"backward"``.
        operand: which operand shows the cause: ``"input"``, ``"weight"``, ``"grad_output"``, or the argument's name.
        kind: what was made: ``"NaN"``, ``"inf"``, ``"-inf"``, or ``"saturated"``.
        dtype: of the result.
        shape: of the operand.
        low: smallest finite value of the operand.
        high: largest finite value of the operand.
        limit: largest value of the result's format.
        cause: the likely one.
        step: applied steps before it.
        is_ordinary: whether nothing is wrong: a dynamic loss scale has probed upward.
        detail: what else was seen, in words.

    Example:
        >>> from mixprec.monitor.locate import CAUSES
        >>> overflow = next(cause for cause in CAUSES if cause.name == "activation overflow")
        >>> fault = Fault(site="blocks.3.mlp.fc2", operation="mm", direction="forward", operand="input", kind="inf",
        ...     dtype="fp16", shape=(8, 64), low=-3e4, high=5e4, limit=65504.0, cause=overflow, step=7)
        >>> fault.reason
        'inf in blocks.3.mlp.fc2 (input), fp16 limit 65504'
    """

    site: str
    operation: str
    direction: str
    operand: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    low: float
    high: float
    limit: float
    cause: Cause
    step: int
    is_ordinary: bool = False
    detail: str = ""

    @property
    def where(self) -> str:
        """Site and operand, e.g. ``"blocks.3.mlp.fc2 (grad_output)"``."""
        return f"{self.site} ({self.operand})" if self.operand else self.site

    @property
    def is_located(self) -> bool:
        """Whether a site is known."""
        return bool(self.site)

    @property
    def reason(self) -> str:
        """What went bad and where, in a few words; empty where no site is known."""
        if not self.is_located:
            return ""
        limit = f", {self.dtype} limit {self.limit:.6g}" if "inf" in self.kind and math.isfinite(self.limit) else ""
        return f"{self.kind} in {self.where}{limit}"

    def finding(self) -> Finding:
        """The fault as a finding: a note where nothing is wrong, or nothing was reproduced."""
        return Finding(
            step=self.step,
            name=self.cause.name,
            severity=self._severity,
            site=self.where,
            message=self._message(),
            evidence=self._evidence() if self.is_located else {},
            threshold=f"{self.dtype} limit {self.limit:.6g}" if self.is_located and math.isfinite(self.limit) else "",
            remedy="nothing is wrong: the dynamic loss scale has probed upward" if self.is_ordinary else self._remedy,
        )

    @property
    def _severity(self) -> Severity:
        if self.is_ordinary:
            return "note"
        return "fault" if self.is_located else "warning"

    @property
    def _remedy(self) -> str:
        return self.cause.remedy

    def _message(self) -> str:
        if not self.is_located:
            return f"{self.cause.name}: {self.detail}"
        # What came in from outside was made by no operation.
        how = "given with" if self.operation == "given" else f"made by {self.operation} ({self.direction}) of"
        values = f"values from {self.low:.4g} to {self.high:.4g}, shape {list(self.shape)}"
        return "; ".join(filter(None, (f"{self.cause.name}: {self.reason}, {how} {values}", self.detail)))

    def _evidence(self) -> dict[str, float | str]:
        return {
            "reason": self.reason,
            "operation": self.operation,
            "direction": self.direction,
            "operand": self.operand,
            "kind": self.kind,
            "dtype": self.dtype,
            "shape": "x".join(map(str, self.shape)),
            "low": self.low,
            "high": self.high,
            "limit": self.limit,
        }
