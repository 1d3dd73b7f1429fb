"""``F.multi_head_attention_forward`` in terms of the functions that the compute dtype's rules see.

torch's own version hides its products from a function mode; this one says the same mathematics through
``F.linear``, ``matmul`` and ``F.scaled_dot_product_attention`` (Vaswani et al. 2017, section 3.2).
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._attention import AttentionArguments, composed
from ._site import ConversionState

#: Names of the two projections under the module's path.
IN_PROJECTION, OUT_PROJECTION = "in_proj", "out_proj"
_SIGNATURE = inspect.signature(F.multi_head_attention_forward)
_Arguments = dict[str, Any]


def projections_of(path: str, module: nn.Module) -> tuple[str, ...]:
    """The paths of the projections inside an ``nn.MultiheadAttention``; none of another module."""
    if not isinstance(module, nn.MultiheadAttention):
        return ()
    return tuple(f"{path}.{part}".lstrip(".") for part in (IN_PROJECTION, OUT_PROJECTION))


def multi_head_attention_forward(state: ConversionState, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """Same arguments, shapes and results as ``torch.nn.functional.multi_head_attention_forward``."""
    bound = _SIGNATURE.bind(*args, **kwargs)
    bound.apply_defaults()
    a: _Arguments = bound.arguments
    batched = a["query"].dim() == 3
    q_LNE, k_SNE, v_SNE = (a[name] if batched else a[name].unsqueeze(1) for name in ("query", "key", "value"))
    with _running(state, IN_PROJECTION):
        q_LNE, k_SNE, v_SNE = _projected(a, q_LNE, k_SNE, v_SNE)
    extra = 0
    if a["bias_k"] is not None and a["bias_v"] is not None:
        batch = k_SNE.shape[1]
        k_SNE = torch.cat([k_SNE, a["bias_k"].expand(1, batch, -1).to(k_SNE.dtype)])
        v_SNE = torch.cat([v_SNE, a["bias_v"].expand(1, batch, -1).to(v_SNE.dtype)])
        extra += 1
    q_NHLD = _heads(q_LNE, a["num_heads"])
    k_NHSD = _static(a["static_k"], q_NHLD) if a["static_k"] is not None else _heads(k_SNE, a["num_heads"])
    v_NHSD = _static(a["static_v"], q_NHLD) if a["static_v"] is not None else _heads(v_SNE, a["num_heads"])
    if a["add_zero_attn"]:
        k_NHSD, v_NHSD = F.pad(k_NHSD, (0, 0, 0, 1)), F.pad(v_NHSD, (0, 0, 0, 1))
        extra += 1
    mask = _mask(a, q_NHLD, extra)
    out_NHLD, weights_NHLS = _attended(state, a, (q_NHLD, k_NHSD, v_NHSD), mask)
    out_LNE = out_NHLD.permute(2, 0, 1, 3).flatten(2)
    with _running(state, OUT_PROJECTION):
        out_LNE = F.linear(out_LNE, a["out_proj_weight"], a["out_proj_bias"])
    if weights_NHLS is not None and a["average_attn_weights"]:
        weights_NHLS = weights_NHLS.mean(1)
    if batched:
        return out_LNE, weights_NHLS
    return out_LNE.squeeze(1), None if weights_NHLS is None else weights_NHLS.squeeze(0)


def _projected(a: _Arguments, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    bias = a["in_proj_bias"]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    if a["use_separate_proj_weight"]:
        weights = (a["q_proj_weight"], a["k_proj_weight"], a["v_proj_weight"])
    elif q is k and k is v:
        return F.linear(q, a["in_proj_weight"], bias).chunk(3, -1)  # pyright: ignore[reportReturnType]
    else:
        weights = a["in_proj_weight"].chunk(3)
    return tuple(F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))  # pyright: ignore[reportReturnType]


def _heads(x_TNE: Tensor, heads: int) -> Tensor:
    return x_TNE.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)


def _static(x: Tensor, like_NHLD: Tensor) -> Tensor:
    return x.unflatten(0, like_NHLD.shape[:2])


def _mask(a: _Arguments, q_NHLD: Tensor, extra: int) -> Tensor | None:
    """The attention and padding masks as one additive fp32 mask, open for the ``extra`` appended keys."""
    mask, padding = a["attn_mask"], a["key_padding_mask"]
    if a["is_causal"] and mask is None:
        raise ValueError(
            "multi_head_attention_forward: is_causal was given without attn_mask; pass both, as torch asks"
        )
    if _takes_the_hint(a):
        return None
    merged: Tensor | None = None
    if mask is not None:
        merged = _additive(mask)
        if merged.dim() == 3:
            merged = merged.unflatten(0, q_NHLD.shape[:2])
    if padding is not None:
        padding = _additive(padding if padding.dim() == 2 else padding.unsqueeze(0))[:, None, None, :]
        merged = padding if merged is None else merged + padding
    return merged if merged is None or extra == 0 else F.pad(merged, (0, extra))


def _takes_the_hint(a: _Arguments) -> bool:
    """Whether torch trusts ``is_causal`` and looks at no mask."""
    return bool(a["is_causal"]) and a["key_padding_mask"] is None and not a["need_weights"]


def _additive(mask: Tensor) -> Tensor:
    """In multi-head attention ``True`` means: not allowed."""
    if mask.dtype != torch.bool:
        return mask.float()
    return torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill(mask, float("-inf"))


def _attended(
    state: ConversionState, a: _Arguments, heads: tuple[Tensor, Tensor, Tensor], mask: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    q, k, v = heads
    dropout = a["dropout_p"] if a["training"] else 0.0
    if not a["need_weights"]:
        full = None if mask is None else mask.expand(q.shape[0], 1 if mask.dim() < 4 else mask.shape[1], -1, -1)
        return F.scaled_dot_product_attention(q, k, v, _rows(full, q), dropout, _takes_the_hint(a)), None
    qk, pv = (state.casts_of(kind) or state.functional for kind in ("qk", "pv"))
    arguments = AttentionArguments(attn_mask=mask, dropout_p=dropout)
    with torch.autocast(state.device_type, enabled=False):
        return composed(q, k, v, arguments, qk, pv)


@contextmanager
def _running(state: ConversionState, name: str) -> Generator[None]:
    """A part of the module that is running, which has a site of its own."""
    current = state.current
    before, current.running = current.running, f"{current.running}.{name}".lstrip(".")
    try:
        yield
    finally:
        current.running = before


def _rows(mask: Tensor | None, q_NHLD: Tensor) -> Tensor | None:
    """A padding mask has one row for all queries; the kernel wants them all."""
    if mask is None or mask.shape[-2] != 1:
        return mask
    return mask.expand(-1, -1, q_NHLD.shape[2], -1)
