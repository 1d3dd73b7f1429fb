"""The part of a session that can be guarded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ..distributed import Alone, Ranks
from ..guard import Guard
from ..monitor import Listeners
from ..records import IncidentRecord
from ._adaptable import Adaptable
from ._checkpoint_parts import Restorable
from .guarding import Guarded, Guarding

_SNAPSHOTS = "snapshots"


class Guardable(Adaptable):
    """``Session`` is made of it."""

    _listeners: Listeners
    _ranks: Ranks

    @property
    def incidents(self) -> tuple[IncidentRecord, ...]:
        """What a guard has seen and done, by number, each as it stands; in the run folder's records too."""
        return self._guard.incidents

    def guard(self, settings: Guard | None = None, *, extra: Mapping[str, Restorable] | None = None) -> Guarded:
        """Let every step be looked at before its update, and the run go back where something is wrong.

        What is seen, which rung of the ladder is taken, its limits and what it costs are in ``docs/guard.md``. A step
        that is left out, or from which the run goes back, has ``applied=False`` and says why; after going back
        ``applied`` is smaller than before, and ``batches`` goes on from there. Call it once, after ``prepare``; before
        or after ``resume``.

        Args:
            settings: what it may do; left out, all but clipping.
            extra: the user's own objects with ``state_dict()`` and ``load_state_dict()`` that belong to the run, by
                name: a curriculum, a schedule that the session does not step.

        Returns:
            The guard: iterate ``guarded.batches(loader)`` instead of the loader.

        Raises:
            ValueError: the session is guarded already.
            TypeError: settings that are none, or an object in ``extra`` without the two methods.

        Example:
            >>> import torch
            >>> from torch import nn
            >>> from mixprec import prepare
            >>> from mixprec.guard import Guard
            >>> model = nn.Linear(2, 1)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
            >>> guarded = session.guard(Guard())
            >>> for x in guarded.batches([torch.ones(4, 2), torch.full((4, 2), float("nan")), torch.ones(4, 2)]):
            ...     result = session.step(model(x).square().mean())
            >>> session.applied, [incident.trigger for incident in session.incidents]
            (2, ['loss not finite'])
        """
        self._refuse_restored("guard")
        if isinstance(self._guard, Guarded):
            raise ValueError("guard: the session is guarded already: one guard sees all of its steps")
        chosen = Guard() if settings is None else settings
        if not isinstance(cast("object", chosen), Guard):
            raise TypeError(f"guard: settings is {chosen!r}, expected a mixprec.guard.Guard")
        extra = dict(extra or {})
        self._owners(extra)  # refuses what cannot be restored
        left = self._guard.state_dict()
        guarded = Guarded(chosen, self._guarding(), extra)
        guarded.load_state_dict(left, self.applied)
        self._guard = guarded
        return guarded

    def _guarding(self) -> Guarding:
        return Guarding(
            kept=self._kept,
            scales=self._scales,
            ranks=self._ranks,
            listeners=self._listeners,
            owners=self._owners,
            widen=self.widen,
            narrow=self._phases.narrow,
            tell=self._tell,
            applied=lambda: self.applied,
            incidents=() if self._folder is None else self._folder.incidents,
            folder=None
            if self._folder is None or not isinstance(self._ranks, Alone)
            else self._folder.path / _SNAPSHOTS,
        )
