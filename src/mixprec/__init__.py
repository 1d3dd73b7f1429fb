"""mixprec: train any PyTorch model in the lowest precision that it can stand.

The names below load their package when they are first used, so that ``import mixprec`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import functional as functional
    from . import monitor as monitor
    from .compare import Workload as Workload
    from .nn import convert as convert
    from .specs import Recipe as Recipe
    from .specs import recipe as recipe
    from .tensors import error as error
    from .tensors import fake_quantize as fake_quantize
    from .tensors import quantize as quantize
    from .training import Session as Session
    from .training import StepResult as StepResult
    from .training import prepare as prepare

__version__ = "0.1.0"

_HOMES = {
    "Recipe": "specs",
    "Session": "training",
    "StepResult": "training",
    "Workload": "compare",
    "convert": "nn",
    "error": "tensors",
    "fake_quantize": "tensors",
    "functional": "",  # the package itself
    "monitor": "",
    "prepare": "training",
    "quantize": "tensors",
    "recipe": "specs",
}

__all__ = [
    "Recipe",
    "Session",
    "StepResult",
    "Workload",
    "convert",
    "error",
    "fake_quantize",
    "functional",
    "monitor",
    "prepare",
    "quantize",
    "recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mixprec' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = _HOMES[name]
    return getattr(import_module(f".{home}", __name__), name) if home else import_module(f".{name}", __name__)
