"""Choosing a backend."""

import subprocess
import sys

import pytest
import torch

from mixprec.kernels import Backend, backend_names, default_backend, get_backend


def test_unknown_backends_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match="reference"):
        get_backend("referense")


def test_backends_follow_the_protocol() -> None:
    for name in backend_names():
        try:
            backend = get_backend(name)
        except ImportError:
            continue
        assert isinstance(backend, Backend)
        assert backend.name == name
        assert get_backend(name) is backend


def test_other_devices_use_the_reference() -> None:
    assert default_backend("mps").name == "reference"
    assert default_backend("meta").name == "reference"


MISSING_EXTENSION = """
import sys, warnings
sys.modules["mixprec.kernels.cpu"] = None  # what an import of a missing extension amounts to
import torch
from mixprec import kernels
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        assert kernels.round(torch.tensor([0.3]), "e4m3").item() == 0.3125
messages = [str(w.message) for w in caught]
assert len(messages) == 1, messages
assert "reference" in messages[0] and "compiler" in messages[0], messages
assert kernels.default_backend("cpu").name == "reference"
"""


def test_a_missing_extension_is_told_once() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING_EXTENSION], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


MISSING_TRITON = """
import sys, warnings
sys.modules["triton"] = None
from mixprec import kernels
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        assert kernels.default_backend("cuda").name == "reference"
messages = [str(w.message) for w in caught]
assert len(messages) == 1, messages
assert "reference" in messages[0] and "mixprec[triton]" in messages[0], messages
"""


def test_missing_triton_is_told_once() -> None:
    done = subprocess.run([sys.executable, "-c", MISSING_TRITON], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_triton_needs_a_gpu_or_its_interpreter() -> None:
    pytest.importorskip("triton")
    with pytest.raises(ImportError, match="TRITON_INTERPRET"):
        get_backend("triton")
