"""What importing the doors costs, and that each stands where the documentation says."""

from __future__ import annotations

import subprocess
import sys

import mixprec.compat
from mixprec.compat import apex_amp, torch_amp, torch_cuda_amp


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    program = "import sys, mixprec; print(any(name.startswith('mixprec.compat') for name in sys.modules))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "False"


def test_the_doors() -> None:
    assert mixprec.compat.__all__ == ["apex_amp", "torch_amp", "torch_cuda_amp"]
    assert issubclass(torch_cuda_amp.GradScaler, torch_amp.GradScaler)
    assert issubclass(torch_cuda_amp.autocast, torch_amp.autocast)
    assert callable(apex_amp.initialize)
