"""Seconds of the collectives of a step: ring algorithms over a link or the network.

A ring all-gather or reduce-scatter of V bytes over n ranks sends (n - 1) / n * V from each, an all-reduce both.
Sources: Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3 (two all-reduces of a layer's forward pass and two of
its backward pass); Narayanan et al., arXiv:2104.04473 (pipelines); Rajbhandari et al., ZeRO, arXiv:1910.02054, section
7; Zhao et al., PyTorch FSDP, arXiv:2304.11277, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...hardware import Hardware
from ._forecast import Bound, ParallelTerm
from ._layout import Parallelism
from ._memory import local_parameters, stage_layers
from ._precision import PaperPrecision
from ._shape import TransformerShape


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What a device sends in a step for one purpose; ``span``: devices from the first of its ranks to the last."""

    name: str
    bytes: float
    span: int
    hides_behind: float = 0.0


def communication(
    shape: TransformerShape,
    layout: Parallelism,
    precision: PaperPrecision,
    hardware: Hardware,
    tokens: int,
    compute: float,
) -> list[ParallelTerm]:
    """The terms of a step; ``tokens`` are those of one micro-batch of a data rank, ``compute`` a device's seconds."""
    found = [_tensor(shape, layout, precision, tokens), _expert(shape, layout, precision, tokens)]
    found += [_pipeline(shape, layout, precision, tokens), _data(shape, layout, precision, compute)]
    return [_term(sent, layout, hardware) for sent in found if sent.bytes]


def _term(sent: Sent, layout: Parallelism, hardware: Hardware) -> ParallelTerm:
    is_near = sent.span <= layout.devices_per_node
    figure, bound = (hardware.link, "link") if is_near else (hardware.network, "network")
    if figure is None:
        raise ValueError(
            f"{hardware.name} has no figure for its {bound}, which {sent.name} runs over: add {bound} [B/s] in a "
            "TOML file of your own"
        )
    seconds = sent.bytes / figure.value
    kind: Bound = "link" if is_near else "network"
    exposed = max(seconds - sent.hides_behind, 0.0)
    return ParallelTerm(name=sent.name, seconds=seconds, exposed=exposed, bytes=sent.bytes, bound=kind)


def _tensor(shape: TransformerShape, layout: Parallelism, precision: PaperPrecision, tokens: int) -> Sent:
    """Four all-reduces of a layer, as all-gathers and reduce-scatters."""
    t = layout.tensor
    each = 2 * (t - 1) / t * tokens * shape.hidden * precision.compute
    times = 4 + 2 * layout.checkpointing  # the forward pass runs again
    moved = times * each * stage_layers(shape, layout) * layout.micro_batches
    return Sent(name="tensor parallelism", bytes=moved, span=t)


def _expert(shape: TransformerShape, layout: Parallelism, precision: PaperPrecision, tokens: int) -> Sent:
    """Tokens to their experts and back, in the forward pass and in the backward pass."""
    e = layout.expert
    layers = max(stage_layers(shape, layout) - shape.dense_layers, 0)
    each = (e - 1) / e * tokens / layout.tensor * shape.experts_per_token * shape.hidden * precision.compute
    times = 4 + 2 * layout.checkpointing
    moved = times * each * layers * layout.micro_batches
    return Sent(name="expert parallelism", bytes=moved, span=e * layout.tensor)


def _pipeline(shape: TransformerShape, layout: Parallelism, precision: PaperPrecision, tokens: int) -> Sent:
    """Activations to the next stage, their gradients back."""
    if layout.pipeline == 1:
        return Sent(name="pipeline parallelism", bytes=0.0, span=1)
    moved = 2 * layout.micro_batches * tokens / layout.tensor * shape.hidden * precision.residual
    return Sent(name="pipeline parallelism", bytes=moved, span=layout.devices)


def _data(shape: TransformerShape, layout: Parallelism, precision: PaperPrecision, compute: float) -> Sent:
    """Gradients reduced once a step; weights gathered for each pass of each micro-batch, where ranks share them."""
    others, experts = local_parameters(shape, layout)
    replicas = layout.data // layout.expert
    shared = (layout.data - 1) / layout.data * others + (replicas - 1) / replicas * experts
    gradients = precision.gradient * shared * (1 if layout.shards("gradients") else 2)
    weights = precision.weight * shared if layout.shards("optimizer") and not layout.shards("weights") else 0.0
    if layout.sharding == "optimizer":  # reduced to its owner, and gathered as weights
        gradients = precision.gradient * shared
    if layout.shards("weights"):
        weights = 2 * layout.micro_batches * precision.compute * shared
        gradients *= layout.micro_batches
    return Sent(
        name="data parallelism",
        bytes=gradients + weights,
        span=layout.data * layout.tensor,
        hides_behind=compute if layout.shards("weights") else 2 * compute / 3,
    )
