"""Operators by the family that a measured machine has a curve for."""

from __future__ import annotations

from .._inventory import KERNEL_UPDATE

#: Families, and the parts of operators' names that tell them; the first that fits.
FAMILIES = (
    (KERNEL_UPDATE, (KERNEL_UPDATE,)),
    ("copy", ("copy", "clone", "contiguous")),
    ("batch_norm", ("batch_norm",)),
    ("layer_norm", ("layer_norm", "group_norm", "rms_norm")),
    ("softmax", ("softmax", "nll_loss")),
    ("gelu", ("gelu", "silu", "tanh", "sigmoid", "erf", "exp", "softplus")),
    ("embedding", ("embedding", "index", "gather", "scatter")),
    ("pool", ("pool", "upsample")),
    ("reduce", ("sum", "mean", "amax", "var", "linalg_vector_norm")),
    ("update", ("addcdiv", "addcmul", "lerp", "sqrt", "_fused", "_foreach")),
    ("fill", ("_local_scalar_dense", "ones_like", "zeros", "fill_", "item")),
)
DEFAULT_FAMILY = "elementwise"
RECURRENT = ("LSTM", "GRU", "RNN", "LSTMCell", "GRUCell", "RNNCell")
#: What a CPU runs as one kernel for each layer; the others are products and operators of their own.
FUSED_RECURRENT = "LSTM"
ATTENTION = ("qk", "pv")


def family_of(operation: str) -> str:
    """The family of an operator.

    Example:
        >>> family_of("native_layer_norm"), family_of("add_")
        ('layer_norm', 'elementwise')
    """
    for family, parts in FAMILIES:
        if any(part in operation for part in parts):
            return family
    return DEFAULT_FAMILY


def layer_family(kind: str) -> str:
    """The kind of layer that casts were measured for."""
    if kind in RECURRENT:
        return "recurrent"
    return "convolution" if kind.startswith(("Conv", "ConvTranspose")) else "linear"
