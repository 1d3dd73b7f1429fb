"""Loading the Triton backend, where it can run."""

from __future__ import annotations

import importlib

import torch

from .._contract import Backend


def triton_backend() -> Backend:
    """The backend, which launches kernels on the device of its arguments.

    Raises:
        ImportError: triton is not installed, or there is neither a GPU nor its interpreter to run kernels.
    """
    interpreted = importlib.import_module("triton.knobs").runtime.interpret

    from ._kernels import TritonKernels
    from ._launch import run

    if not torch.cuda.is_available() and not interpreted:
        raise ImportError(
            "its kernels run on a GPU, and torch finds none here; with TRITON_INTERPRET=1 in the environment they "
            "run on the CPU, for tests"
        )
    return TritonKernels(run)
