"""Settings of all tests and doctests."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # Without the compiled kernels the tests run through the reference; that the warning is given has its own test.
    config.addinivalue_line("filterwarnings", "ignore:the compiled kernels of backend")
