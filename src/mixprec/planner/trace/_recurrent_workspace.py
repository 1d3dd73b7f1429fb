"""What oneDNN's recurrent layers keep between forward and backward pass, which a tensor without values does not show."""

from __future__ import annotations

import math
from typing import Any


def workspace_bytes(args: tuple[Any, ...]) -> int:
    """Bytes of the workspace of ``aten.mkldnn_rnn_layer``."""
    return 0
