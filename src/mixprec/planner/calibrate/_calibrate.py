"""This machine as hardware: measured in about a minute."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ...hardware import Hardware, Measured
from ...nn import native_here
from ...specs import OPERANDS, recipe, recipe_names
from ._as_hardware import as_hardware
from ._layers import attention_grid, cast_costs, recurrent_curve
from ._operators import operator_curves
from ._products import batched_grid, convolution_grids, product_grid
from ._stopwatch import Stopwatch
from ._update import update_curve
from ._whole_steps import Stepper, fit_whole_steps, plain_steps

Report = Callable[[str], None]
_FAMILIES = ("linear", "convolution", "recurrent")


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    """At which sizes a machine is measured."""

    samples: int
    m: tuple[int, ...]
    nk: tuple[int, ...]
    batched: tuple[int, ...]
    pixels: tuple[int, ...]
    channels: tuple[int, ...]
    patches: tuple[int, ...]
    rows: tuple[int, ...]
    heads: tuple[int, ...]
    lengths: tuple[int, ...]
    widths: tuple[int, ...]


_FULL = _Sizes(
    samples=15,
    m=(16, 128, 1024, 4096),
    nk=(16, 64, 256, 1024),
    batched=(16, 64, 256),
    pixels=(512, 4096),
    channels=(16, 64, 128),
    patches=(9, 144, 576, 1152),
    rows=(16, 256, 1024, 4096, 16384, 131072),
    heads=(4, 64),
    lengths=(16, 64, 256),
    widths=(8, 32, 64, 128, 256),
)
_QUICK = _Sizes(
    samples=2,
    m=(16, 256),
    nk=(16, 256),
    batched=(16, 64),
    pixels=(64, 512),
    channels=(16, 32),
    patches=(9, 144),
    rows=(16, 1024),
    heads=(4, 16),
    lengths=(16, 64),
    widths=(16, 64),
)


def calibrate(
    *,
    name: str = "this-machine",
    quick: bool = False,
    report: Report | None = None,
    stepper: Stepper = plain_steps,
) -> Hardware:
    """Measure the CPU at hand with the threads that torch has now.

    Measured are products of matrices at a grid of sizes (in fp32, and in bf16 where it is native), batches of small
    ones, the three products of convolutions, operators by bytes, fused attention and recurrent layers, what every cast
    of the named recipes adds to a layer, and the steps of five small models, which tell what operators take more
    within a step than alone. Nothing else should run meanwhile.

    Args:
        name: of the hardware.
        quick: few sizes, in seconds: enough to see that it works, not to predict by.
        report: is told what is being measured.
        stepper: of a model and its optimizer makes what takes a loss and updates the model, as training will:
            ``lambda model, optimizer: mixprec.prepare(model, optimizer, "fp32").step`` for sessions, which add hooks
            and checks. By default a backward pass and the optimizer's step.

    Returns:
        Hardware that is validated for this machine: the same processor, threads and version of torch.

    Example:
        >>> calibrate(quick=True).measured.threads == torch.get_num_threads()
        True
    """
    tell, sizes = report or _silent, _QUICK if quick else _FULL
    watch = Stopwatch(samples=sizes.samples)
    with torch.random.fork_rng(devices=[]):
        tell("products")
        axes = (sizes.m, sizes.nk, sizes.nk)
        products = {"fp32": product_grid(watch, axes, torch.float32)}
        if "bf16" in native_here(torch.device("cpu")):
            products["bf16"] = product_grid(watch, axes, torch.bfloat16)
        products["batched fp32"] = batched_grid(watch, (sizes.batched, sizes.batched, sizes.batched))
        tell("convolutions")
        products |= convolution_grids(watch, sizes.pixels, sizes.channels, sizes.patches)
        tell("operators")
        operators = operator_curves(watch, sizes.rows)
        operators["kernel_update"] = update_curve(watch, sizes.rows[:-1])
        products["attention"] = attention_grid(watch, (sizes.heads, sizes.lengths, sizes.batched[:2]))
        operators["recurrent"] = recurrent_curve(watch, sizes.widths)
        tell("casts")
        casts = cast_costs(watch, ("mxfp8",) if quick else _all_casts(), _FAMILIES, products)
    measured = Measured(
        machine=processor(),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        products=products,
        operators=operators,
        casts=casts,
        reference=watch.reference,
    )
    tell("whole steps")
    with torch.random.fork_rng(devices=[]):
        measured = fit_whole_steps(watch, measured, stepper)
    return as_hardware(name, measured, is_validated=not quick)


def is_this_machine(hardware: Hardware) -> bool:
    """Whether hardware was measured on this machine, with as many threads and this version of torch."""
    measured = hardware.measured
    return measured is not None and measured.fingerprint == (processor(), torch.get_num_threads(), torch.__version__)


def processor() -> str:
    """The processor's name and what it can do at best, as torch sees it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = named[0] if named else platform.processor() or platform.machine()
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}"


def _all_casts() -> tuple[str, ...]:
    """Of the named recipes, each once, and the compute dtypes."""
    found: dict[str, None] = {"bf16": None, "fp16": None}
    for name in recipe_names():
        for rule in recipe(name).all_rules:
            for operand in OPERANDS if rule.precision is not None else ():
                cast = rule.precision.operand(operand) if rule.precision is not None else None
                if cast is not None:
                    found[str(cast)] = None
    return tuple(found)


def _silent(_: str) -> None:
    return
