"""A run of the user's command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mixprec.records import Record, RunEndRecord

from ._black_box import BlackBox
from ._child import Child, how_it_ended
from ._failure import failed, killed_or_failed
from ._log_records import Logged, read_logs
from ._read_rows import LogError
from ._run_place import make_place, run_place


class CommandJob:
    """One run: its command, and the records that its logs become.

    Args:
        box: what is compared.
        folder: the comparison's.
        recipe: name of what is run.
        seed: of the run.
        environment: of the process.
    """

    def __init__(self, box: BlackBox, folder: Path, recipe: str, seed: int, environment: Mapping[str, str]) -> None:
        self.recipe, self.seed = recipe, seed
        self._box, self._folder, self._environment = box, folder, environment
        self._place = run_place(folder.absolute(), recipe, seed)

    def start(self) -> Child:
        """Start the command in an empty folder of its own; its working directory is this process's."""
        place = make_place(self._folder.absolute(), self.recipe, self.seed)
        return Child(self._box.words(self.recipe, self.seed, place), place, self._environment)

    def news(self) -> Iterator[Record]:
        """Nothing: logs are read when they are whole."""
        yield from ()

    def stopped(self) -> Iterator[Record]:
        """What the logs have so far, where they can be read."""
        try:
            yield from self._logged().records
        except LogError:
            return

    def end(self, child: Child, status: int) -> Iterator[Record]:
        """Read the logs; a metric that is missing or no number ends the run as ``failed``."""
        try:
            logged = self._logged()
        except LogError as error:
            if status:
                yield from killed_or_failed(self.recipe, self.seed, child, status)
            else:
                yield from failed(self.recipe, self.seed, child, str(error))
            return
        yield from logged.records
        if status < 0 or (status and not logged.diverged):
            yield from killed_or_failed(self.recipe, self.seed, child, status, step=logged.steps)
        elif logged.diverged:
            # Many scripts stop with an error where their loss is NaN: what matters is the loss.
            reason = logged.diverged + (f"; {how_it_ended(status)}" if status else "")
            yield RunEndRecord(recipe=self.recipe, seed=self.seed, status="diverged", reason=reason)
        else:
            yield RunEndRecord(recipe=self.recipe, seed=self.seed, status="done")

    def _logged(self) -> Logged:
        return read_logs(self._box.files(self.recipe, self.seed, self._place), self.recipe, self.seed)
