"""What oneDNN's LSTM takes on a CPU, which a tensor without values does not show.

Source: oneDNN's ``rnn_utils.cpp`` (``set_offsets``, ``get_good_ld``) and sizes measured with torch 2.13: exact up to a
page for each of its parts.
"""

from __future__ import annotations

import math
from typing import Any

_PAGE, _FP32 = 4096, 4


def workspace_bytes(args: tuple[Any, ...]) -> int:
    """Bytes that ``aten.mkldnn_rnn_layer`` keeps for its backward pass: gates and states of all steps."""
    steps, rows, features, hidden = _sizes(args)
    wide, states = _leading(max(features, hidden)), 2 * (steps + 1)
    parts = (
        steps * rows * _leading(4 * hidden),
        *(states * rows * wide,) * 3,
        *(states * rows * hidden,) * 2,
        steps * rows * _leading(hidden),
    )
    return sum(math.ceil(_FP32 * part / _PAGE) * _PAGE for part in parts)


def scratch_bytes(args: tuple[Any, ...], *, is_backward: bool) -> int:
    """Bytes that a layer takes while it runs: gates, its weights in another layout, states."""
    steps, rows, features, hidden = _sizes(args)
    gates, states = _leading(4 * hidden), 4 if is_backward else 2
    return _FP32 * (steps * rows * gates + (features + hidden) * gates + states * rows * hidden)


def _sizes(args: tuple[Any, ...]) -> tuple[int, int, int, int]:
    x, recurrent = args[0], args[2]
    return x.shape[0], x.shape[1], x.shape[2], recurrent.shape[1]


def _leading(size: int) -> int:
    """A row's length in memory: whole cache lines, and no multiple of 256 numbers."""
    line = 64 // _FP32
    rounded = math.ceil(size / line) * line
    return rounded + line if rounded % 256 == 0 else rounded
