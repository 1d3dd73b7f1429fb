"""Passes that leave nothing behind: a look at a converted model that its training does not notice."""

# The state of a conversion is this package's own.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from torch import Tensor

from ._convert import Conversion
from ._passing import Pass
from ._past_passes import PastPasses


@contextmanager
def passes_aside(conversion: Conversion, casts: tuple[Tensor, Mapping[str, Tensor]] | None = None) -> Generator[None]:
    """Inside, passes of the model draw the random bits that come next and use none up; histories and audit stay too.

    Everything that a pass changes is a copy inside, so that no version counter of what is put back has moved. What was
    to be measured in the next step still is. Not to be entered in a forward pass.

    Args:
        conversion: of the model.
        casts: ``random_state()`` and ``histories()`` that the passes begin with; ``None``: as they are.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from mixprec.nn import convert
        >>> conversion = convert(nn.Linear(32, 32), "nvfp4")
        >>> before = conversion.random_state()
        >>> with passes_aside(conversion):
        ...     _ = conversion.model(torch.ones(2, 32))
        >>> torch.equal(conversion.random_state(), before)
        True
    """
    state, thread = conversion.state, conversion.state._in_thread
    before = {
        name: getattr(state, name)
        for name in ("random", "histories", "passes", "observer", "watch", "product_watch", "left", "_past")
    }
    measured = conversion._rows, conversion._measured_notes
    own, thread.own = thread.own, Pass()
    random, histories = (state.random, state.histories) if casts is None else casts
    state.random, state.left, state._past = random.clone(), set(state.left), PastPasses()
    state.histories = {name: history.clone() for name, history in histories.items()}
    state.observer = state.watch = state.product_watch = None
    try:
        yield
    finally:
        thread.own.workspace.release()
        thread.own = own
        for name, value in before.items():
            setattr(state, name, value)
        conversion._rows, conversion._measured_notes = measured
