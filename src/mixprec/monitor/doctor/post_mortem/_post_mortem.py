"""From a run folder to the page about one incident."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....records import IncidentRecord, Table
from .._contents import read_run
from ._advice import Advice, advise
from ._case import find_case
from ._linked import linked
from ._markdown import page
from ._timeline import timeline


@dataclass(frozen=True, kw_only=True)
class PostMortem:
    """What is to be said of one incident.

    Attributes:
        path: of the run folder.
        incident: as it was written last.
        timeline: the run around it, line by line, in the order in which it was written.
        linked: incidents that share its trigger or layer, with what they share in words.
        advice: what to do now.
    """

    path: Path
    incident: IncidentRecord
    timeline: Table
    linked: tuple[tuple[IncidentRecord, str], ...]
    advice: Advice

    def to_markdown(self) -> str:
        """As one page of Markdown."""
        return page(self.path, self.incident, self.timeline, self.linked, self.advice)


def post_mortem(run: str | Path, number: int, *, recipe: str | None = None, seed: int | None = None) -> PostMortem:
    """Tell one incident of a run, from its folder; nothing is changed.

    Args:
        run: the folder of a training or of a comparison.
        number: of the incident, as records, live view and report show it.
        recipe: whose; needed where several recipes have an incident of that number.
        seed: likewise.

    Raises:
        ValueError: no run folder; no such incident, with those that there are; or several.
        OSError: it cannot be opened.

    Example:
        >>> import tempfile
        >>> from mixprec.records import write_records
        >>> folder = Path(tempfile.mkdtemp())
        >>> write_records(folder / "records.jsonl", [IncidentRecord(
        ...     recipe="fp8", seed=0, number=1, step=40, trigger="loss spike", site="", evidence={"loss": 9.1},
        ...     rung="skip", action="the step was skipped", batches=(40,), lost_steps=1, outcome="recovered", resolved=60,
        ... )])
        >>> print(post_mortem(folder, 1).to_markdown().splitlines()[2])
        Before step 40 of fp8, seed 0, the guard saw loss spike and took the rung skip: the step was skipped; recovered at step 60; 1 step lost.
    """  # noqa: E501
    case = find_case(read_run(run), number, recipe, seed)
    return PostMortem(
        path=case.contents.path,
        incident=case.incident,
        timeline=timeline(case),
        linked=tuple(linked(case)),
        advice=advise(case),
    )
