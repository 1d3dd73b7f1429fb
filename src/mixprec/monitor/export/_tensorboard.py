"""Records as TensorBoard's scalars, histograms and texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ...records import (
    ComparisonRecord,
    FindingRecord,
    IncidentRecord,
    Record,
    StatisticsRecord,
    incident_text,
    markdown_text,
)
from ._extra import load_extra
from ._scalars import Scalars, step_of

#: What TensorBoard's tags may hold; other characters become "_", as in all its tags.
_FOREIGN = re.compile(r"[^-/\w.]")


class TensorBoardExporter:
    """Writes event files that ``tensorboard --logdir FOLDER`` shows; one TensorBoard run for each recipe and seed.

    Scalars are named ``loss``, ``gradient_norm``, ``loss_scale``, ``flushed/SITE/ROLE/CAST`` and so on
    (``docs/monitor/where-to-look.md``); ``exponents/SITE/ROLE`` is a histogram over log2 of the magnitude, each binade
    a bin; findings and incidents are texts. A site's characters that a tag cannot hold become ``_``.

    Args:
        folder: of the event files, made if needed; in it ``RECIPE/seedN``.
        flush_seconds: how long TensorBoard's writer may hold records back.

    Raises:
        ImportError: TensorBoard is not installed; with what to install.

    Example:
        >>> exporter = TensorBoardExporter("runs/a/tensorboard")  # doctest: +SKIP
        >>> for record in records: exporter.take(record)  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, flush_seconds: int = 10) -> None:
        # Looked for by its own name first: torch's module says only that something is missing.
        load_extra("tensorboard", extra="tensorboard", what="TensorBoardExporter")
        self._make_writer = load_extra(
            "torch.utils.tensorboard", extra="tensorboard", what="TensorBoardExporter"
        ).SummaryWriter
        self._folder, self._flush = Path(folder), flush_seconds
        self._runs: dict[tuple[str, int], tuple[Any, Scalars]] = {}

    def take(self, record: Record) -> None:
        """Write one record's numbers at its step."""
        step = step_of(record)
        if step is None or isinstance(record, ComparisonRecord):
            return
        writer, scalars = self._run(record.recipe, record.seed)
        for name, value in scalars.of(record).items():
            writer.add_scalar(_FOREIGN.sub("_", name), value, step)
        match record:
            case StatisticsRecord() if record.in_use and record.exponents:
                self._histogram(writer, record)
            case FindingRecord():
                writer.add_text(f"findings/{_FOREIGN.sub('_', record.name)}", _markdown(record), step)
            case IncidentRecord():
                writer.add_text(
                    f"incidents/{_FOREIGN.sub('_', record.trigger)}", markdown_text(incident_text(record)), step
                )
            case _:
                pass

    def close(self) -> None:
        """Write what is held back and close the files."""
        for writer, _ in self._runs.values():
            writer.close()
        self._runs.clear()

    def _run(self, recipe: str, seed: int) -> tuple[Any, Scalars]:
        if (recipe, seed) not in self._runs:
            folder = self._folder / _FOREIGN.sub("_", recipe).replace("/", "_") / f"seed{seed}"
            self._runs[recipe, seed] = self._make_writer(str(folder), flush_secs=self._flush), Scalars()
        return self._runs[recipe, seed]

    @staticmethod
    def _histogram(writer: Any, record: StatisticsRecord) -> None:
        """Counts by binade; the moments are those of the binades' middles, which TensorBoard's mean comes from."""
        counts = {int(exponent): count for exponent, count in record.exponents.items()}
        low, high = min(counts), max(counts)
        binades = range(low, high + 1)
        writer.add_histogram_raw(
            _FOREIGN.sub("_", f"exponents/{record.site}/{record.role}"),
            min=low,
            max=high + 1,
            num=sum(counts.values()),
            sum=sum(count * (exponent + 0.5) for exponent, count in counts.items()),
            sum_squares=sum(count * (exponent + 0.5) ** 2 for exponent, count in counts.items()),
            # TensorBoard's bins reach from the limit before to their own: an empty one below starts the first.
            bucket_limits=[low, *(exponent + 1 for exponent in binades)],
            bucket_counts=[0, *(counts.get(exponent, 0) for exponent in binades)],
            global_step=record.step,
        )


def _markdown(record: FindingRecord) -> str:
    where = f" `{record.site}`" if record.site else ""
    rest = [f"Compared with: {record.threshold}."] if record.threshold else []
    rest += [f"What to do: {record.remedy}."] if record.remedy else []
    rule = f"\n\n```toml\n{record.rule}\n```" if record.rule else ""
    return f"**{record.severity}**{where}: {record.message}\n\n" + "\n\n".join(rest) + rule
