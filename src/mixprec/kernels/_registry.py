"""The backends: one folder and one line here for each."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import cast as typing_cast

from mixprec.formats import unknown_name

from ._contract import Backend
from ._optimizer_contract import OptimizerBackend
from ._statistics_contract import StatisticsBackend


@dataclass(frozen=True)
class _Entry:
    """Where a backend is found.

    Attributes:
        module: imported when the backend is first asked for.
        attribute: gives the backend when called; that or the import raises ImportError if it cannot run here.
        remedy: what to do then.
    """

    module: str
    attribute: str
    remedy: str = ""


_BACKENDS = {
    "reference": _Entry("mixprec.kernels.reference", "ReferenceBackend"),
    "cpu": _Entry("mixprec.kernels.cpu", "CpuBackend", "install mixprec again with a C++17 compiler"),
    "triton": _Entry("mixprec.kernels.triton", "triton_backend", "install triton, as in mixprec[triton]"),
}
# Which backends serve a device, best first; other devices are served by the reference.
_PREFERENCE = {"cpu": ("cpu", "reference"), "cuda": ("triton", "reference")}


def backend_names() -> tuple[str, ...]:
    """Names of all backends, whether or not they can run here.

    Example:
        >>> backend_names()
        ('reference', 'cpu', 'triton')
    """
    return tuple(_BACKENDS)


@lru_cache(maxsize=16)
def get_backend(name: str) -> Backend:
    """A backend by name.

    Raises:
        ValueError: no backend has that name.
        ImportError: it cannot run here: its extension is not compiled, triton is not installed, or there is no GPU.

    Example:
        >>> get_backend("reference").name
        'reference'
    """
    if name not in _BACKENDS:
        raise unknown_name("backend", name, _BACKENDS)
    entry = _BACKENDS[name]
    return typing_cast(Backend, getattr(importlib.import_module(entry.module), entry.attribute)())


@lru_cache(maxsize=16)
def default_backend(device_type: str) -> Backend:
    """The backend that serves tensors on a device, e.g. ``"cpu"`` or ``"cuda"``.

    A backend that should serve the device and cannot be loaded is passed over with one warning a process.

    Example:
        >>> default_backend("meta").name
        'reference'
    """
    for name in _PREFERENCE.get(device_type, ()):
        try:
            return get_backend(name)
        except ImportError as error:
            warnings.warn(
                f"the compiled kernels of backend {name!r} cannot be loaded ({error}): tensors on {device_type!r} "
                f"use the slower 'reference' backend, with the same results; to get them, {_BACKENDS[name].remedy}",
                stacklevel=2,
            )
    return get_backend("reference")


@lru_cache(maxsize=16)
def optimizer_backend(device_type: str) -> OptimizerBackend:
    """The backend that steps optimizers on a device: its default one, or the reference where that one only casts.

    Example:
        >>> optimizer_backend("meta").name
        'reference'
    """
    backend = default_backend(device_type)
    return backend if isinstance(backend, OptimizerBackend) else typing_cast(OptimizerBackend, get_backend("reference"))


@lru_cache(maxsize=16)
def statistics_backend(device_type: str) -> StatisticsBackend:
    """The backend that takes statistics on a device: its default one, or the reference where that one only casts.

    Example:
        >>> type(statistics_backend("meta")).__name__
        'ReferenceBackend'
    """
    backend = default_backend(device_type)
    return (
        backend if isinstance(backend, StatisticsBackend) else typing_cast(StatisticsBackend, get_backend("reference"))
    )
