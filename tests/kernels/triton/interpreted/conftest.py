"""These tests run where Triton interprets its kernels; `tests/kernels/triton/test_interpreted.py` starts them so."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from mixprec.kernels import Backend, get_backend

INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")
collect_ignore_glob = [] if INTERPRETED else ["test_*.py"]


@pytest.fixture
def triton() -> Backend:
    return get_backend("triton")


@pytest.fixture
def reference() -> Backend:
    return get_backend("reference")


@pytest.fixture
def large_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen times the elements to a program: interpreting takes its time by the program. `test_cuts.py` cuts as a
    device does.
    """
    from mixprec.kernels.triton import _cuts

    monkeypatch.setattr(_cuts, "PROGRAM", 16 * _cuts.PROGRAM)


@pytest.fixture(autouse=True)
def numbers_as_on_a_device() -> Iterator[None]:
    """Infinities and NaN arise in silence: the interpreter computes with NumPy, which would warn."""
    with np.errstate(all="ignore"):
        yield
