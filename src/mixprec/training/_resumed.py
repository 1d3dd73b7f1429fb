"""What a session was continued from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """What ``Session.resume`` found and did; ``print`` it.

    Attributes:
        path: of the checkpoint or the file of weights; ``None``: there was nothing to resume, the run begins.
        step: applied steps of it.
        restored: what was restored.
        passed_over: newer checkpoints that are damaged, each with what is.
        converted: what is kept otherwise now than it was saved.
        not_restored: averages and schedules that only the checkpoint or only the session has, and devices that are
            not in use here.
        differences: of versions, CPU and threads, under which last bits may differ.

    Example:
        >>> print(Resumed(path=None, step=0, restored=()))
        nothing to resume: the run begins at step 0
    """

    path: Path | None
    step: int
    restored: tuple[str, ...]
    passed_over: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()
    not_restored: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.path is None:
            return f"nothing to resume: the run begins at step {self.step}"
        lines = [f"resumed from step {self.step} ({self.path}): {', '.join(self.restored)}"]
        lines += [f"passed over: {damage}" for damage in self.passed_over]
        lines += [f"converted: {line}" for line in self.converted]
        lines += [f"not restored: {line}" for line in self.not_restored]
        lines += [f"differs, so that last bits may: {line}" for line in self.differences]
        return "\n".join(lines)
