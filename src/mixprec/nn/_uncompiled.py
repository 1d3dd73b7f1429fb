"""A step that is measured runs compiled parts of the model uncompiled: what is compiled shows nobody its products.

A dispatch mode that is on makes torch's compiler skip a part, and it never tries the skipped code again, in whatever
model that is. Told beforehand to run everything eagerly, it leaves the part for the next step.
"""

# torch's compiler has no public spelling for whether it is about to look at what runs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn


def is_watched_by_compiler() -> bool:
    """Whether this code runs between two graphs of a compiled caller, whose compiler sees every call."""
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()  # None: no compiler; False: it only runs
    return callback is not None and callback is not False


def uncompiled() -> AbstractContextManager[Any]:
    """Inside, what ``torch.compile`` has compiled or is to compile runs eagerly."""
    if "torch._dynamo" not in sys.modules:  # nothing can be compiled yet, and the import takes seconds
        return nullcontext()
    return torch.compiler.set_stance("force_eager")


def has_compiled_parts(model: nn.Module) -> bool:
    """Whether a part of ``model`` is compiled by itself."""
    return any(module._compiled_call_impl is not None or hasattr(module, "_orig_mod") for module in model.modules())
