"""Settings of all tests and doctests."""

import importlib.util
import signal

import pytest

# Modules that cannot be imported, so that their examples cannot run, where triton is not installed.
NEED_TRITON = ["src/mixprec/kernels/triton/device/*", "src/mixprec/kernels/triton/_casting.py"]
NEED_TRITON += ["src/mixprec/kernels/triton/_kernels.py"]
collect_ignore_glob = NEED_TRITON if importlib.util.find_spec("triton") is None else []


def pytest_configure(config: pytest.Config) -> None:
    """Let the tests run through the reference where the compiled kernels are missing; the warning has a test.

    A shell starts what it runs in the background with SIGINT ignored, and tests send it: Python's own handler is set.
    """
    config.addinivalue_line("filterwarnings", "ignore:the compiled kernels of backend")
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
