"""The compiled extension and the Python sources are of one version, or it is said."""

import subprocess
import sys

import pytest

STALE = """
import sys, types, warnings
sys.modules["mixprec.kernels.cpu._native"] = types.ModuleType("mixprec.kernels.cpu._native")  # as before the number
from mixprec import kernels
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    name = kernels.default_backend("cpu").name
print(name, *(str(w.message) for w in caught))
"""


def test_a_stale_extension_is_passed_over_with_a_reason() -> None:
    pytest.importorskip("mixprec.kernels.cpu._native")
    out = subprocess.run([sys.executable, "-c", STALE], capture_output=True, text=True, check=True).stdout
    assert out.startswith("reference ")
    assert "extension has bindings 0, and its Python sources expect" in out
    assert "compile it again" in out


def test_the_built_extension_is_of_these_sources() -> None:
    cpu = pytest.importorskip("mixprec.kernels.cpu")
    native = pytest.importorskip("mixprec.kernels.cpu._native")
    assert native.BINDINGS == cpu.BINDINGS
