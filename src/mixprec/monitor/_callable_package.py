"""The class of this package's module object: calling it watches a loop.

``mixprec.monitor`` is the package, with its classes, and ``mixprec.monitor(model, optimizer)`` the door that the face
promises. Setting ``__class__`` of a module is the documented way to give it behaviour (the data model of the Python
language, "Customizing module attribute access").
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from ._monitoring import Monitoring
from .attach import Monitor, attach


class CallablePackage(ModuleType):
    """A package that is called as ``attach`` is."""

    def __call__(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer] | None = None,
        options: Monitoring | None = None,
        *,
        run: str | Path | None = None,
        scaler: Any = None,
        seed: int = 0,
    ) -> Monitor:
        """Watch the training of a model; see ``attach``."""
        return attach(model, optimizer, options, run=run, scaler=scaler, seed=seed)
