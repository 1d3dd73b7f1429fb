"""``scaled_dot_product_attention`` in a 16-bit compute dtype on a device without 16-bit units, or in casts.

The operands are the 16-bit values, both products and the softmax run in fp32, the result is rounded once: the
same arithmetic that a native kernel with fp32 accumulation does. Only 16-bit tensors and the row sums are kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ._autograd import plain_torch
from ._matmul import matmul
from ._once import OnceFunction, refuse_transforms
from ._operand_watch import see_plain
from ._site import ConversionState, Site
from ._telling import plain_product
from ._twice import twice

# Memory of a pass for the kernel's operands: query, key and value; before them and after, the gradient and the output.
_SLOTS = ("first", "second", "third", "weight", "sums")


@dataclass(frozen=True, kw_only=True)
class AttentionArguments:
    """The arguments of ``F.scaled_dot_product_attention`` besides query, key and value."""

    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def _again(ctx: Any) -> Any:
    q, k, v, _out, _logsumexp, bias = ctx.saved_tensors
    if not ctx.state.is_twice:
        return None
    arguments, site = replace(ctx.arguments, attn_mask=bias, enable_gqa=False), ctx.state.functional
    return (q, k, v), lambda: composed(q, k, v, arguments, site, site)[0]


class WideAttention(OnceFunction):
    """Attention of 16-bit operands through the fp32 flash kernel of the CPU."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor | None,
        arguments: AttentionArguments,
        state: ConversionState,
    ) -> Tensor:
        ctx.where = state.where()
        with plain_torch(state.device_type), plain_product(state, ctx.where, "attention", "emulated"):
            wide, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                *_widened(state, q, k, v), 0.0, arguments.is_causal, attn_mask=bias, scale=arguments.scale
            )
            # The kernel lays its output out as [B, T, H, E]; the copy keeps that, so that the merge of heads is a view.
            out = wide.to(state.compute_dtype)
        ctx.save_for_backward(q, k, v, out, logsumexp, bias)
        ctx.arguments, ctx.state = arguments, state
        return out

    @staticmethod
    @twice(_again)
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]  # the decorator's types are open
        (grad,) = grad_outputs
        q, k, v, out, logsumexp, bias = ctx.saved_tensors
        arguments, state = ctx.arguments, ctx.state
        see_plain(grad, "grad_output", "dgrad", state.functional, f"{ctx.where}.pv".lstrip("."))
        with plain_torch(state.device_type), plain_product(state, ctx.where, "attention backward", "emulated"):
            grads = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                *_widened(state, grad, q, k, v, out), logsumexp, 0.0, arguments.is_causal,
                attn_mask=bias, scale=arguments.scale,
            )  # fmt: skip
            dq, dk, dv = (g.to(state.compute_dtype) for g in grads)
        return dq, dk, dv, None, None, None


def _widened(state: ConversionState, *tensors: Tensor) -> list[Tensor]:
    """Tensors [B, H, T, E] in fp32, for the time of one call of the kernel."""
    if torch.compiler.is_compiling():  # which plans memory itself; a trace must not ask what lies where
        return [t.float() for t in tensors]
    return [_widened_into(slot, t, state) for slot, t in zip(_SLOTS, tensors, strict=False)]


def _widened_into(slot: str, x_BHTE: Tensor, state: ConversionState) -> Tensor:
    # Heads are mostly slices of a projection [B, T, H, E]: their order in memory is kept, so that the copy reads on.
    is_slice = x_BHTE.stride(1) < x_BHTE.stride(2)
    x = x_BHTE.transpose(1, 2) if is_slice else x_BHTE
    out = state.current.workspace.take(slot, x.shape, x.device)
    wide = x.float() if out is None else out.copy_(x)
    return wide.transpose(1, 2) if is_slice else wide


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    arguments: AttentionArguments,
    state: ConversionState,
    *,
    qk: Site | None = None,
    pv: Site | None = None,
) -> Tensor:
    """Attention with operands rounded to the compute dtype, or cast as its two products' sites say.

    Args:
        q: [..., T, E].
        k: [..., S, E].
        v: [..., S, Ev].
        arguments: mask, dropout, causality, scale, grouped heads.
        state: compute dtype and engine.
        qk: casts of the scores' product: queries are its input, keys its weight.
        pv: casts of the second product: probabilities are its input, values its weight.
    """
    refuse_transforms(state.where(), q, k, v)
    if qk is not None or pv is not None:
        with torch.autocast(state.device_type, enabled=False):
            return composed(q, k, v, arguments, qk or state.functional, pv or state.functional)[0]
    dtype = state.compute_dtype
    _show(q, k, v, state)
    q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
    if state.device_type != "cpu":
        return _torch_attention(q, k, v, arguments)
    if not _flash_takes(q, k, v, arguments):
        with torch.autocast(state.device_type, enabled=False):
            return composed(q, k, v, arguments, state.functional, state.functional)[0].to(dtype)
    k, v = _ungrouped(q, k, v, arguments)
    return WideAttention.apply(q, k, v, _additive(arguments.attn_mask, q, k), arguments, state)  # pyright: ignore[reportReturnType]


def _show(q: Tensor, k: Tensor, v: Tensor, state: ConversionState) -> None:
    """Tell of the operands before they are brought to the compute dtype."""
    if state.watcher is not None:
        where, site = state.where(), state.functional
        see_plain(q, "input", "fprop", site, f"{where}.qk".lstrip("."))
        see_plain(k, "weight", "fprop", site, f"{where}.qk".lstrip("."))
        see_plain(v, "weight", "fprop", site, f"{where}.pv".lstrip("."))


def composed(
    q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments, qk: Site, pv: Site
) -> tuple[Tensor, Tensor]:
    """Attention as two products around an fp32 softmax: with dropout, a learned mask, casts or unusual shapes.

    The probabilities are rounded to the compute dtype before the second product, as fused 16-bit kernels do.
    A row that is masked whole gives zeros, as in torch. Gives the probabilities (after the dropout) too.
    """
    k, v = _ungrouped(q, k, v, arguments)
    scale = 1.0 / math.sqrt(q.shape[-1]) if arguments.scale is None else arguments.scale
    scores = matmul(q, k.transpose(-2, -1), qk, wide=True, spares_outer=False).float() * scale
    mask = arguments.attn_mask
    if arguments.is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.float()
    weights = torch.ops.aten._safe_softmax(scores, -1)
    if arguments.dropout_p > 0.0:
        weights = F.dropout(weights, arguments.dropout_p, training=True)
    return matmul(weights, v, pv, spares_outer=False), weights


def _ungrouped(q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments) -> tuple[Tensor, Tensor]:
    """Keys and values with a head for each head of the queries."""
    if not arguments.enable_gqa or q.shape[-3] == k.shape[-3] == v.shape[-3]:
        return k, v
    return (
        k.repeat_interleave(q.shape[-3] // k.shape[-3], -3),
        v.repeat_interleave(q.shape[-3] // v.shape[-3], -3),
    )


def _torch_attention(q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments) -> Tensor:
    mask = arguments.attn_mask
    if mask is not None and mask.dtype != torch.bool:
        mask = mask.to(q.dtype)
    return F.scaled_dot_product_attention(
        q, k, v, mask, arguments.dropout_p, arguments.is_causal, scale=arguments.scale, enable_gqa=arguments.enable_gqa
    )


def _flash_takes(q: Tensor, k: Tensor, v: Tensor, arguments: AttentionArguments) -> bool:
    mask = arguments.attn_mask
    return (
        q.dim() == k.dim() == v.dim() == 4
        and q.shape[0] == k.shape[0] == v.shape[0]
        and q.shape[-1] == k.shape[-1] == v.shape[-1]
        and k.shape[1] == v.shape[1]
        and (q.shape[1] == k.shape[1] or (arguments.enable_gqa and q.shape[1] % k.shape[1] == 0))
        and min(q.numel(), k.numel()) > 0
        and arguments.dropout_p == 0.0
        and (mask is None or (mask.dim() in (2, 4) and not mask.requires_grad and not arguments.is_causal))
    )


def _additive(mask: Tensor | None, q: Tensor, k: Tensor) -> Tensor | None:
    """A boolean mask as minus infinity where it is False; an additive one in fp32."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        zeros = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
        return zeros.masked_fill(~mask, float("-inf"))
    return mask.float()
