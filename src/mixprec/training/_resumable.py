"""What a session saves and continues from: its own state, and checkpoints of the whole run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from ..optim import KeptWeights
from ._checkpoint_parts import Owners, Restorable
from ._checkpointing import load_plain_weights, no_position_event, resume_session, save_session
from ._result import Event
from ._resumed import Resumed
from ._run_folder import RunFolder
from ._state import is_session_state
from ._state_keeper import StateKeeper
from .guarding import Unguarded

_KEPT_EVENTS = 1000


class Resumable(ABC):
    """The part of a session that outlives its process; ``Session`` is made of it."""

    _states: StateKeeper

    def __init__(self, model: nn.Module, kept: Mapping[str, KeptWeights], folder: RunFolder | None) -> None:
        self.model = model
        self.optimizers: Mapping[str, Optimizer] = {name: weights.optimizer for name, weights in kept.items()}
        self.applied = self.skipped = 0
        self._events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self._kept, self._folder = kept, folder
        self._guard: Unguarded = Unguarded()
        self._is_open, self._has_told_of_data = True, False

    @property
    def events(self) -> tuple[Event, ...]:
        """What the session told: the last 1,000 events, oldest first."""
        return tuple(self._events)

    def state_dict(self) -> dict[str, Any]:
        """What continues the session, beside the states of the model and of the optimizers.

        Plain values and tensors, which ``torch.load(weights_only=True)`` reads. Tensors are references, as torch's
        own are: copy them to keep them. A forward pass that no step has used counts as done: a later skipped step does
        not give back what it used up and changed, here as little as where the state is loaded.
        """
        self._settle()
        return self._states.state(self.applied, self.skipped, self._guard.state_dict()).to_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any], convert: bool = False) -> None:
        """Continue from a ``state_dict()``; nothing else advances, and gradients in flight are dropped.

        Load the model's and the optimizers' own states too, in any order. A run folder goes on from the state's step:
        what it recorded from there on is replaced by what follows.

        Args:
            state_dict: of a session of this version or an earlier one.
            convert: take over a state of another recipe: weights are kept as this session keeps them, from the exact
                value that was saved, scales and histories go on where they mean the same, and events tell what
                differs. The model's state and the optimizers' must be loaded before. A plain ``state_dict`` of the
                model is taken too, its weights alone.

        Raises:
            ValueError: not a session's state; or that of another recipe (what differs is listed) or model; or one that
                the run in the run folder never reached.
        """
        if convert and not is_session_state(state_dict):
            load_plain_weights(self._owners({}), state_dict)
            self._drop_gradients()
            return
        state = self._states.read(state_dict, convert=convert)
        if self._folder is not None:
            self._events.extend(self._folder.go_on(state.applied))
        told = self._states.load(state, convert=convert)
        self.applied, self.skipped = state.applied, state.skipped
        self._guard.load_state_dict(state.guard, state.applied)
        self._drop_gradients()
        self._tell([Event(step=self.applied, name=name, message=message) for name, message in told])

    def save(
        self, folder: str | Path | None = None, *, extra: Mapping[str, Restorable] | None = None, keep: int | None = 2
    ) -> Path:
        """Write a checkpoint of the whole run: when the call returns, the disk has it, whatever happens next.

        It holds the model (buffers that its ``state_dict`` leaves out too), the optimizers, this session, the random
        states of torch, Python and numpy, and what is given in ``extra``; as safetensors and JSON, without pickle.
        Call it between steps: gradients are not saved.

        Args:
            folder: of the run's checkpoints; left out, ``checkpoints`` in the run folder.
            extra: objects with ``state_dict()`` and ``load_state_dict()``, by name: the data loader, most of all.
            keep: how many whole checkpoints stay, with this one; ``None``: all.

        Returns:
            The checkpoint's own folder, ``.../step-00000123``.

        Raises:
            CheckpointNotWritten: the disk is full, or the like; or a weight or moment is not finite. Those before
                stand, and training can go on.
            ValueError: no folder; gradients that no step has used; one process of several; another one is saving there.
            TypeError: a state with a value that cannot be read back without running code.

        Example:
            >>> import tempfile, torch
            >>> from mixprec import prepare
            >>> model = nn.Linear(2, 1)
            >>> session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
            >>> result = session.step(model(torch.ones(4, 2)).square().mean())
            >>> folder = tempfile.mkdtemp()
            >>> session.save(folder).name
            'step-00000001'
            >>> session.resume(folder).step
            1
        """
        self._refuse_unusable("save")
        owners = self._owners(extra)
        path = save_session(owners, folder, self._folder, step=self.applied, keep=keep)
        if not extra and not self._has_told_of_data:
            self._has_told_of_data = True
            self._tell([no_position_event(self.applied)])
        return path

    def resume(
        self,
        folder: str | Path | None = None,
        *,
        extra: Mapping[str, Restorable] | None = None,
        convert: bool = False,
    ) -> Resumed:
        """Continue from the newest whole checkpoint, bit for bit; what does not fit is refused before it changes.

        Every byte is verified. A damaged checkpoint is passed over, and an event names the damage. Call it after
        ``prepare`` in every start of a script: where a run folder has no checkpoint yet, the run begins.

        Args:
            folder: of the run's checkpoints, or one of them; left out, ``checkpoints`` in the run folder. With
                ``convert`` also a file of weights (safetensors, or ``torch.save``): its weights are taken alone.
            extra: as given to ``save``, under the same names.
            convert: take over a checkpoint of another recipe, as ``load_state_dict`` does; moments of
                ``mixprec.optim`` are converted too.

        Returns:
            What was found and restored; ``print`` it.

        Raises:
            FileNotFoundError: ``folder`` holds no checkpoint.
            CheckpointDamaged: none is whole; the message lists the damage of each.
            ValueError: a checkpoint of another recipe (what differs is listed) or model, or other names in ``extra``.
        """
        self._refuse_restored("resume")
        resumed, events = resume_session(self._owners(extra), folder, self._folder, convert=convert)
        if resumed.path is None and self._folder is not None:
            self._events.extend(self._folder.go_on(resumed.step))
        known = {(event.name, event.message) for event in self._events}  # a conversion is told as the state is loaded
        self._tell([event for event in events if (event.name, event.message) not in known])
        return resumed

    @abstractmethod
    def _settle(self) -> None:
        """Count forward passes that no step has used as done, but where gradients are in flight."""

    @abstractmethod
    def _drop_gradients(self) -> None:
        """Forget what was backpropagated and not stepped."""

    def _owners(self, extra: Mapping[str, Restorable] | None) -> Owners:
        return Owners(
            model=self.model, optimizers=self.optimizers, kept=self._kept, session=self, extra=dict(extra or {})
        )

    def _tell(self, events: Sequence[Event]) -> None:
        self._events.extend(events)
        if self._folder is not None:
            self._folder.write_events(events)

    def _refuse_restored(self, what: str) -> None:
        if not self._is_open:
            raise ValueError(f"{what}: the session was restored; prepare the model again")

    def _refuse_unusable(self, what: str) -> None:
        self._refuse_restored(what)
        if self._folder is not None:
            self._folder.refuse_earlier(what)
