"""A model, a layout of devices and a recipe: memory and time on paper."""

from __future__ import annotations

from ...hardware import Hardware
from ...specs import Recipe, load_recipe
from ._communication import communication
from ._forecast import ParallelForecast, ParallelTerm
from ._layout import Parallelism
from ._memory import activation_bytes, model_bytes
from ._precision import PaperPrecision
from ._shape import TransformerShape

_ON_PAPER = (
    "worked out on paper, not validated: ring collectives at the full rate of link and network, activations of a "
    "decoder whose attention keeps no scores, experts that are loaded alike"
)
_SHARE = "products are taken to reach {:.0%} of the peak of {}: {}"


def plan_parallel(
    shape: TransformerShape,
    layout: Parallelism,
    recipe: Recipe | str,
    hardware: Hardware,
    *,
    sequence: int,
    samples: int = 1,
    moments: int = 2,
) -> ParallelForecast:
    """Work out what the fullest device holds, and how long a step takes.

    Products take the format of the recipe's first rule, at the share of the peak that the hardware's figures say is
    attained. Tensor and expert parallelism stop the computation; the data ranks' collectives run beside it, and a
    pipeline idles (stages - 1) / micro-batches of its time (arXiv:2104.04473, section 2.2).

    Args:
        shape: of the model.
        layout: of the devices.
        recipe: a recipe, its name, or the path of its TOML file.
        hardware: of each device.
        sequence: tokens of a sample.
        samples: of a micro-batch of one data rank.
        moments: numbers that the optimizer keeps of each parameter: 2 of Adam's.

    Raises:
        ValueError: more stages than layers, a format that the hardware does not multiply, or a figure that it lacks.
    """
    wanted = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    if layout.pipeline > shape.layers:
        raise ValueError(f"parallelism: {layout.pipeline} stages of {shape.layers} layers: expected at most as many")
    precision, tokens = PaperPrecision.of(wanted, shape, moments), samples * sequence
    rate, notes = _rate(hardware, precision.format)
    all_tokens = tokens * layout.data * layout.micro_batches
    flops = shape.flops(all_tokens, sequence)
    factor = 4 / 3 if layout.checkpointing else 1.0
    compute = factor * flops / layout.devices / rate
    terms = [ParallelTerm(name="computation", seconds=compute, exposed=compute, bound="compute")]
    bubble = (layout.pipeline - 1) / layout.micro_batches * compute
    if bubble:
        terms.append(ParallelTerm(name="pipeline bubble", seconds=bubble, exposed=bubble, bound="bubble"))
    terms += communication(shape, layout, precision, hardware, tokens, compute)
    memory = {**model_bytes(shape, layout, precision), **activation_bytes(shape, layout, precision, tokens)}
    return ParallelForecast(
        model=shape.name,
        parameters=shape.parameters,
        recipe=wanted.name,
        layout=layout,
        tokens=all_tokens,
        flops=flops,
        memory={name: round(n) for name, n in memory.items()},
        terms=tuple(terms),
        notes=(_ON_PAPER, *notes),
    )


def _rate(hardware: Hardware, format_name: str) -> tuple[float, tuple[str, ...]]:
    """Attained FLOP/s of a format, and how that is known."""
    peak = hardware.rate_of(format_name)
    if peak is None:
        have = ", ".join(hardware.native_formats) or "none below fp32"
        raise ValueError(
            f"{hardware.name} does not multiply {format_name} natively (it has {have}): choose a recipe of one of those"
        )
    share = hardware.share_of(format_name)
    if share is None:
        return peak.value, (_SHARE.format(1.0, format_name, "no source tells the share of large products"),)
    return peak.value * share.value, (_SHARE.format(share.value, format_name, share.source),)
