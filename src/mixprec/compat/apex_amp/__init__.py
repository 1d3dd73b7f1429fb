"""``apex.amp``, whose module no longer exists: ``from mixprec.compat import apex_amp as amp``, and a script runs on."""

from ._functions import (
    disable_casts,
    float_function,
    half_function,
    promote_function,
    register_float_function,
    register_half_function,
    register_promote_function,
)
from ._initialize import initialize
from ._options import Options
from ._saved_state import load_state_dict, state_dict
from ._scale_loss import master_params, scale_loss

__all__ = [
    "Options",
    "disable_casts",
    "float_function",
    "half_function",
    "initialize",
    "load_state_dict",
    "master_params",
    "promote_function",
    "register_float_function",
    "register_half_function",
    "register_promote_function",
    "scale_loss",
    "state_dict",
]
