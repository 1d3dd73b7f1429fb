"""Fixtures of the compiled backend's tests."""

import pytest
import torch

try:
    from mixprec.kernels import cpu
except ImportError:
    cpu = None


@pytest.fixture(params=cpu.level_names() if cpu else ["none"])
def level(request: pytest.FixtureRequest) -> str:
    """Every instruction set that this machine has."""
    if cpu is None:
        pytest.skip("the compiled kernels are not built")
    return request.param


@pytest.fixture
def backend(level: str) -> "cpu.CpuBackend":
    return cpu.CpuBackend(level)


@pytest.fixture
def backends() -> "dict[str, cpu.CpuBackend]":
    """All of them, by the level's name, where a reference that is slow is to be computed once."""
    if cpu is None:
        pytest.skip("the compiled kernels are not built")
    return {level: cpu.CpuBackend(level) for level in cpu.level_names()}


@pytest.fixture
def threads():
    """Sets the thread count; the former one comes back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
