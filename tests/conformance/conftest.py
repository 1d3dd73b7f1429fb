"""Every test here that takes ``backend`` runs for each registered backend that serves tensors on the CPU."""

import os

import pytest

from mixprec.kernels import Backend, backend_names, get_backend

# Triton's kernels take CPU tensors where they are interpreted, slowly:
# TRITON_INTERPRET=1 python -m pytest tests/conformance -k triton
INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")


@pytest.fixture(params=[name for name in backend_names() if name != "triton" or INTERPRETED])
def backend(request: pytest.FixtureRequest) -> Backend:
    try:
        return get_backend(request.param)
    except ImportError as error:
        pytest.skip(f"backend {request.param} cannot be loaded: {error}")
