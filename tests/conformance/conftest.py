"""Every test here that takes ``backend`` runs for each registered backend that can be loaded."""

import pytest

from mixprec.kernels import Backend, backend_names, get_backend


@pytest.fixture(params=backend_names())
def backend(request: pytest.FixtureRequest) -> Backend:
    try:
        return get_backend(request.param)
    except ImportError as error:
        pytest.skip(f"backend {request.param} cannot be loaded: {error}")
