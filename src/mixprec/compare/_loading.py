"""Workloads by name: a built-in one, or a user's Python file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mixprec.formats import unknown_name

from ._random_state import own_random_state
from ._user_code import WorkloadError, calling
from ._utf8 import check_source
from ._workload import Workload
from .workloads import BUILT_IN


@dataclass(frozen=True, kw_only=True)
class WorkloadSource:
    """Where workloads come from, one per seed.

    Attributes:
        name: a built-in name or the file as it was given.
        function: ``workload(seed, device, **options)``.
        options: what ``function`` takes beside seed and device, of ``steps`` and ``data``.
        steps: steps asked for, also where ``function`` does not take them.
        file: the user's file, ``None`` for a built-in workload.
        sha256: of that file.
    """

    name: str
    function: Callable[..., object]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    steps: int | None = None
    file: Path | None = None
    sha256: str = ""

    def build(self, seed: int, device: str) -> Workload:
        """The workload of a seed.

        Raises:
            WorkloadError: if the user's function fails or returns something else.
            ValueError: if a built-in workload refuses its options.
        """
        # Seeded for functions that forget to; the caller's random state is left as it was.
        with own_random_state(device), calling(f"workload(seed={seed}, device={device!r})", self.file):
            torch.manual_seed(seed)
            made = self.function(seed, device, **self.options)
        if not isinstance(made, Workload):
            raise WorkloadError(
                f"{self.name}: workload(seed, device) returned {type(made).__name__}, expected mixprec.Workload; "
                "`mixprec init FILE` writes an example to start from"
            )
        named = replace(made, name=made.name or Path(self.name).stem, data=self._data(made))
        return named if self.steps is None else replace(named, steps=self.steps)

    def _data(self, made: Workload) -> Mapping[str, str]:
        return dict(made.data) | ({"workload_sha256": self.sha256} if self.sha256 else {})


def load_workload(name: str, *, steps: int | None = None, data: str | None = None) -> WorkloadSource:
    """Find a workload.

    Args:
        name: a built-in workload (``gpt``, ``resnet``) or a Python file with ``def workload(seed, device)``, which
            may take the keywords ``steps`` and ``data`` too.
        steps: training steps; ``None`` leaves the number to the workload.
        data: handed to a workload that takes ``data``.

    Raises:
        ValueError: for an unknown name, a file without the function, data that the workload does not take.
        OSError: if the file cannot be read.

    Example:
        >>> load_workload("gpt", steps=10).build(0, "cpu").steps
        10
    """
    if steps is not None and steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    if name in BUILT_IN:
        source = WorkloadSource(name=name, function=BUILT_IN[name], steps=steps)
    elif name.endswith(".py"):
        source = _from_file(Path(name), steps)
    else:
        raise unknown_name("workload", name, [*BUILT_IN, "a file ending in .py (`mixprec init FILE.py` writes one)"])
    return replace(source, options=_options(source, steps=steps, data=data))


def _options(source: WorkloadSource, *, steps: int | None, data: str | None) -> dict[str, Any]:
    """What was asked for and the function takes. Steps can be cut from outside; data cannot."""
    given = {name: value for name, value in (("steps", steps), ("data", data)) if value is not None}
    parameters = inspect.signature(source.function).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return given
    if "data" in given and "data" not in parameters:
        raise ValueError(f"workload {source.name!r} takes no data, got {data!r}; leave --data out")
    return {name: value for name, value in given.items() if name in parameters}


def _from_file(path: Path, steps: int | None) -> WorkloadSource:
    content = path.read_bytes()
    check_source(content, path)
    module = _import_file(path)
    function = getattr(module, "workload", None)
    if not callable(function):
        has = sorted(name for name, value in vars(module).items() if inspect.isfunction(value))
        found = f"its functions are {', '.join(has)}" if has else "it defines no function"
        raise WorkloadError(
            f"{path} has no function workload(seed, device): {found}; `mixprec init FILE.py` writes an example"
        )
    digest = hashlib.sha256(content).hexdigest()
    return WorkloadSource(name=str(path), function=function, steps=steps, file=path, sha256=digest)


def _import_file(path: Path) -> ModuleType:
    """Run the file as a module of its own, as ``python FILE`` would, with its folder importable."""
    name = f"_mixprec_workload_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.absolute())
    if spec is None or spec.loader is None:
        raise WorkloadError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Dataclasses and pickle look a class's module up by name.
    sys.modules[name] = module
    with calling(f"loading {path}", path):
        spec.loader.exec_module(module)
    return module
