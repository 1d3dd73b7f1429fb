"""Attention."""

from __future__ import annotations

from typing import TypedDict, Unpack

from torch import Tensor

from ..nn import AttentionArguments
from ._precision import Precision, products


class AttentionOptions(TypedDict, total=False):
    """As ``Options``; ``precision`` may be one for each of the two products."""

    precision: Precision | tuple[Precision, Precision]
    compute_dtype: str | None
    seed: int


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    **options: Unpack[AttentionOptions],
) -> Tensor:
    """``torch.nn.functional.scaled_dot_product_attention`` whose two products multiply cast operands.

    Of the scores' product queries have the casts of the input, keys those of the weight; of the second, probabilities
    those of the input, values those of the weight. The softmax between them is fp32.

    Args:
        query: fp32, bf16 or fp16 ``[..., T, E]``.
        key: ``[..., S, E]``.
        value: ``[..., S, Ev]``.
        attn_mask: boolean (True: may be seen) or added to the scores.
        dropout_p: share of the probabilities that is dropped.
        is_causal: whether a query sees no later key.
        scale: of the scores; by default ``1 / sqrt(E)``.
        enable_gqa: whether several heads of queries share one of keys and values.
        **options: ``precision``: of both products, or one for each: ``("mxfp8", None)`` casts the scores' alone.
            ``compute_dtype``: of what has no cast, and of the result; by default that of ``query``. ``seed``: of
            stochastic roundings and fresh signs.

    Returns:
        ``[..., T, Ev]`` in the compute dtype.

    Raises:
        TypeError, ValueError: as `linear`.

    Example:
        >>> import torch
        >>> q, v = torch.zeros(1, 2), torch.tensor([[5.0, 0.3]])
        >>> scaled_dot_product_attention(q, q, v, precision=(None, "e4m3")).tolist()    # 0.3 -> 0.3125
        [[5.0, 0.3125]]
    """
    name = "functional.scaled_dot_product_attention"
    given = options.get("precision")
    qk, pv = given if isinstance(given, tuple) else (given, given)
    arguments = AttentionArguments(
        attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    made = products(name, query, **{**options, "precision": qk})
    return made.attention(query, key, value, arguments, pv)
