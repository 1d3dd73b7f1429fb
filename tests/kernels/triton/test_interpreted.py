"""The kernels on the CPU, in processes where Triton interprets them: it decides so once, when it is imported."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import tree

FOLDER = Path(__file__).with_name("interpreted")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")


@pytest.mark.parametrize("module", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_interpreted_kernels_equal_the_reference(module: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(FOLDER / module)]
    # A worker of pytest-xdist would take this for a run of its own.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        command,
        cwd=tree.ROOT,
        env=inherited | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout.splitlines()[-1]
    assert "skipped" not in done.stdout.splitlines()[-1]
