"""Settings of all tests and doctests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests run through the reference where the compiled kernels are missing; the warning has a test."""
    config.addinivalue_line("filterwarnings", "ignore:the compiled kernels of backend")
