"""Memory in large pages: fewer walks of the page tables while a matrix is written and multiplied."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

import torch
from torch import Tensor

from ..kernels import has_no_values

#: Size and alignment of a large page on x86-64 and on most arm64 systems.
_PAGE = 1 << 21
_MADV_HUGEPAGE = 14  # Linux, asm-generic/mman-common.h


def empty_in_large_pages(size: int) -> Tensor:
    """An uninitialised fp32 vector whose memory may lie in large pages, where the system has them to give.

    It is torch's own memory, with a page more for the alignment; the advice (``madvise(MADV_HUGEPAGE)``, Linux) is free
    to be ignored.
    """
    advise = _advice()
    if advise is None or 4 * size < _PAGE:
        return torch.empty(size)
    memory = torch.empty(size + _PAGE // 4)
    if has_no_values(memory):
        return memory[:size]
    skipped = -memory.data_ptr() % _PAGE
    advise(memory.data_ptr() + skipped, 4 * size // _PAGE * _PAGE, _MADV_HUGEPAGE)
    return memory[skipped // 4 : skipped // 4 + size]


@functools.cache
def _advice() -> Callable[[int, int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    madvise.restype = ctypes.c_int
    return madvise
