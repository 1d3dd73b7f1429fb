"""Bytes of the fullest device."""

from __future__ import annotations

import math

from ._layout import Parallelism
from ._precision import PaperPrecision
from ._shape import TransformerShape


def stage_layers(shape: TransformerShape, layout: Parallelism) -> int:
    """Layers of the fullest stage."""
    return math.ceil(shape.layers / layout.pipeline)


def local_parameters(shape: TransformerShape, layout: Parallelism) -> tuple[float, float]:
    """Parameters of the fullest stage that a device would hold if its data ranks shared nothing: (others, experts).

    The first stage has the embedding and the last one the head.
    """
    share = stage_layers(shape, layout) / shape.layers
    ends = shape.embedding + shape.head if layout.pipeline == 1 else max(shape.embedding, shape.head)
    return (shape.layer * share + ends) / layout.tensor, shape.expert * share / layout.tensor / layout.expert


def model_bytes(shape: TransformerShape, layout: Parallelism, precision: PaperPrecision) -> dict[str, float]:
    """Weights, masters, moments and gradients of a device.

    Source: Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, arXiv:1910.02054,
    section 5.
    """
    others, experts = local_parameters(shape, layout)
    sharded = others / layout.data + experts / (layout.data / layout.expert)
    whole = others + experts
    state, weights = sharded if layout.shards("optimizer") else whole, sharded if layout.shards("weights") else whole
    kinds = {
        "weights": precision.weight * weights,
        "masters": precision.master * state,
        "moments": precision.moments * state,
        "gradients": precision.gradient * (sharded if layout.shards("gradients") else whole),
    }
    if layout.shards("weights") and layout.data > 1:
        # The layer that runs and the one that is fetched meanwhile are there whole.
        a_layer = shape.layer / shape.layers / layout.tensor
        an_expert_layer = shape.expert / max(shape.layers - shape.dense_layers, 1) / layout.tensor / layout.expert
        kinds["gathered weights"] = 2 * precision.compute * (a_layer + an_expert_layer)
    return {name: n for name, n in kinds.items() if n}


def layer_activations(
    shape: TransformerShape, tokens: float, precision: PaperPrecision, *, with_experts: bool
) -> float:
    """Bytes that one layer saves for its backward pass, of so many tokens; attention keeps no scores.

    Of each norm its input and its output, of attention its three operands and its output, of the feed-forward all that
    is as wide as it. Source, for a layer without gates and with attention's scores: Korthikanti et al., Reducing
    Activation Recomputation in Large Transformer Models, arXiv:2205.05198, section 4.1.
    """
    heads, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    c, s = precision.compute, precision.saved
    norms = 2 * shape.hidden * (precision.residual + s)
    attention = c * (heads + 2 * kv) + (c if s == c else c + s) * heads + 4 * shape.heads
    inner = c * (3 if shape.is_gated else 1) + s
    if not with_experts:
        return tokens * (norms + attention + inner * shape.feed_forward)
    # A token's expert inputs are copies of it, one for each expert that it meets, and so are the outputs.
    routed = shape.experts_per_token * (inner * shape.expert_feed_forward + (s + c) * shape.hidden)
    return tokens * (norms + attention + routed + inner * shape.shared_feed_forward)


def activation_bytes(
    shape: TransformerShape, layout: Parallelism, precision: PaperPrecision, tokens: int
) -> dict[str, float]:
    """Saved activations of the fullest device.

    Under 1F1B the first stage holds as many micro-batches as there are stages (arXiv:2104.04473, section 2.2).

    Args:
        shape: of the model.
        layout: of the devices.
        precision: of the recipe.
        tokens: of one micro-batch of one data rank.
    """
    layers, in_flight = stage_layers(shape, layout), min(layout.pipeline, layout.micro_batches)
    mine = tokens / layout.tensor
    dense = min(layers, shape.dense_layers)
    plain = layer_activations(shape, mine, precision, with_experts=False)
    mixed = layer_activations(shape, mine, precision, with_experts=True) if shape.experts else 0.0
    whole = dense * plain + (layers - dense) * mixed
    if layout.checkpointing:
        kept = layers * mine * shape.hidden * precision.residual
        whole, running = kept, max(plain if dense else 0.0, mixed)
    else:
        running = 0.0
    kinds = {"saved activations": in_flight * whole, "recomputed layer": running}
    # The logits in fp32 and the gradient of them, of the last stage, which has one micro-batch in flight.
    logits = 2 * 4 * mine * shape.vocabulary
    if layout.pipeline == 1:
        kinds["logits"] = logits
    return {name: n for name, n in kinds.items() if n}
