"""Fixtures of the tests of conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

_CASTS = {"round", "scaled", "scaled_both", "scaled_interleaved", "scaled_quantized", "delayed", "quantize"}


class Casts(TorchDispatchMode):
    """Counts the kernels' casts by the shape of what they read; those into given memory go past the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[int, ...]] = Counter()

    def of_shape(self, *shape: int) -> int:
        return self.shapes[shape]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "mixprec" and func._schema.name.partition("::")[2] in _CASTS:
            self.shapes[tuple(args[0].shape)] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def count_casts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[Casts]]:
    """A context that counts casts."""
    monkeypatch.setattr("mixprec.nn._workspace.Workspace.take", lambda self, slot, shape, device: None)

    @contextmanager
    def counting() -> Generator[Casts]:
        counter = Casts()
        with counter:
            yield counter

    return counting


@pytest.fixture(autouse=True)
def _autocast_is_left_as_it_was() -> Generator[None]:
    yield
    assert not torch.is_autocast_enabled("cpu")
