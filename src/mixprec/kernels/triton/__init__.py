"""The contract in Triton's language, for tensors on a GPU.

Its device functions are written once, in terms of compile-time constants, and are compiled at first use. They run
on CPU tensors too, slowly, where Triton interprets them: with ``TRITON_INTERPRET=1`` in the environment.
"""

from ._backend import triton_backend

__all__ = ["triton_backend"]
