"""What is to be watched of a run, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..specs import parse_cast
from ._step_watch import StepWatch
from .alarms import Thresholds
from .export import Exporter, check_exporters


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """What is watched of a run.

    Attributes:
        every: applied steps from one sampled step to the next, from the first step on; 1: each; 0: none.
        sites: patterns (as of ``fnmatch``) of the module paths and parameter names that are sampled.
        what_if: casts, in their one-line form, that every sampled tensor is rounded by as well, for their figures.
        weights: whether weights are sampled (of plain modules; those of converted layers are, as operands).
        gradients: whether the gradients of parameters are.
        updates: whether what a sampled step did to parameters is.
        alarms: whether losses, norms, scales and what was sampled are held against ``thresholds``.
        locate: whether a step with a non-finite gradient is replayed, to name the first bad tensor.
        recorder_steps: steps that the flight recorder keeps; 0: none.
        thresholds: of the alarms.
        watches: further ones to be told of each step, after the library's own.
        exporters: that the records are handed to as they are made (``mixprec.monitor.export``,
            ``mixprec.report.live.LiveView``); closed with the run.

    Raises:
        ValueError: a negative number, no pattern, or a text that is no cast.
        TypeError: a watch or an exporter that is none.

    Example:
        >>> Monitoring(every=1, sites=("blocks.3.*",), what_if=("e4m3[tensor]", "mxfp4")).what_if
        ('e4m3[tensor]', 'mxfp4')
    """

    every: int = 100
    sites: tuple[str, ...] = ("*",)
    what_if: tuple[str, ...] = ()
    weights: bool = True
    gradients: bool = True
    updates: bool = True
    alarms: bool = True
    locate: bool = True
    recorder_steps: int = 64
    thresholds: Thresholds = field(default_factory=Thresholds)
    watches: tuple[StepWatch, ...] = ()
    exporters: tuple[Exporter, ...] = ()

    def __post_init__(self) -> None:
        for name in ("every", "recorder_steps"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"Monitoring: {name} is {value!r}: expected a whole number, 0 for never")
        for name in ("sites", "what_if"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(text, str) for text in value):
                raise ValueError(f"Monitoring: {name} is {value!r}: expected texts, e.g. {name}=({_EXAMPLES[name]},)")
            object.__setattr__(self, name, tuple(value))
        if not self.sites:
            raise ValueError("Monitoring: sites is empty: expected patterns such as '*' or 'blocks.3.*'; every=0: none")
        for text in self.what_if:
            parse_cast(text)
        check_exporters("Monitoring: exporters", self.exporters)
        for watch in self.watches:
            if not isinstance(watch, StepWatch):  # pyright: ignore[reportUnnecessaryIsInstance]  # what callers may give
                raise TypeError(f"Monitoring: watches has a {type(watch).__name__}, expected a monitor.StepWatch")


_EXAMPLES = {"sites": "'blocks.3.*'", "what_if": "'mxfp4'"}
