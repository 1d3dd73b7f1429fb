"""The backends: one folder and one line here for each."""

from __future__ import annotations

import importlib
import warnings
from functools import lru_cache
from typing import cast as typing_cast

from mixprec.formats import unknown_name

from ._contract import Backend

# name: (module, class). A module is imported when its backend is first asked for; one that cannot run here
# raises ImportError.
_BACKENDS = {
    "reference": ("mixprec.kernels.reference", "ReferenceBackend"),
    "cpu": ("mixprec.kernels.cpu", "CpuBackend"),
}
# Which backends serve a device, best first; other devices are served by the reference.
_PREFERENCE = {"cpu": ("cpu", "reference")}


def backend_names() -> tuple[str, ...]:
    """Names of all backends, whether or not they can run here.

    Example:
        >>> backend_names()
        ('reference', 'cpu')
    """
    return tuple(_BACKENDS)


@lru_cache(maxsize=16)
def get_backend(name: str) -> Backend:
    """A backend by name.

    Raises:
        ValueError: no backend has that name.
        ImportError: its compiled extension is not installed.

    Example:
        >>> get_backend("reference").name
        'reference'
    """
    if name not in _BACKENDS:
        raise unknown_name("backend", name, _BACKENDS)
    module, attribute = _BACKENDS[name]
    return typing_cast(Backend, getattr(importlib.import_module(module), attribute)())


@lru_cache(maxsize=16)
def default_backend(device_type: str) -> Backend:
    """The backend that serves tensors on a device, e.g. ``"cpu"`` or ``"cuda"``.

    A backend that should serve the device and cannot be loaded is passed over with one warning a process.

    Example:
        >>> default_backend("cuda").name
        'reference'
    """
    for name in _PREFERENCE.get(device_type, ()):
        try:
            return get_backend(name)
        except ImportError as error:
            warnings.warn(
                f"the compiled kernels of backend {name!r} cannot be loaded ({error}): tensors on {device_type!r} "
                "use the slower 'reference' backend, with the same results; to get them, install mixprec again "
                "with a C++17 compiler",
                stacklevel=2,
            )
    return get_backend("reference")
