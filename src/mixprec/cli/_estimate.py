"""``mixprec estimate``: memory, largest batch, step time and price, before anything runs."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ._asked_recipes import asked_recipes
from ._named_hardware import named_hardware

if TYPE_CHECKING:
    from mixprec.hardware import Hardware


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec estimate` can be told."""

    recipe: str = "fp32,bf16"
    """Recipes: names or paths of TOML files, with a comma between two. Of a config, the first one."""
    hardware: str | None = None
    """Name of a device (`h100-sxm`), or path of a TOML file as `mixprec calibrate` writes it. Default: memory only."""
    count: int = 1
    """How many such devices."""
    batch: int | None = None
    """Samples of each device in a step. Default: the workload's; of a config, 1."""
    steps: int | None = None
    """Training steps to price."""
    tokens: float | None = None
    """Tokens to price instead (samples, where a workload has no tokens)."""
    epochs: float | None = None
    """Epochs to price instead, of `--samples`."""
    samples: int | None = None
    """Samples of an epoch."""
    price: float | None = None
    """Of one device for an hour, in your currency; default: what the hardware's file says."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    seed: int = 0
    """Of the weights and the data."""
    json: Annotated[bool, Parameter(negative=())] = False
    """Print JSON."""
    figure: Path | None = None
    """Write a figure of memory and time to this file: `.html`, or `.png` where the package kaleido is installed."""


@dataclass(frozen=True, kw_only=True)
class ExtraOptions:
    """What a run spends beside its training steps, priced apart."""

    evaluations: int = 0
    """How often the model is evaluated."""
    evaluation_seconds: float = 0.0
    """Of one evaluation."""
    checkpoints: int = 0
    """How often the state is saved."""
    checkpoint_seconds: float = 0.0
    """That training waits for one."""
    monitoring: float = 0.0
    """What statistics and alarms add, as a share of the training's time."""
    reruns: float = 0.0
    """Share of the training that is expected to be run again."""
    failures_per_day: float = 0.0
    """Of one device."""
    restart_seconds: float = 0.0
    """Until training goes on after a failure."""


@dataclass(frozen=True, kw_only=True)
class LayoutOptions:
    """How the model of a config is spread over the devices; data ranks are what `--count` leaves."""

    sequence: int = 4096
    """Tokens of a sample."""
    tensor: int = 1
    """Ranks that share each matrix."""
    pipeline: int = 1
    """Stages of layers."""
    expert: int = 1
    """Ranks that share the experts, among the data ranks."""
    sharding: str = "none"
    """What data ranks share: `none`, `optimizer`, `gradients` or `weights` (FSDP)."""
    checkpointing: Annotated[bool, Parameter(negative=())] = False
    """Recompute each layer in the backward pass."""
    micro_batches: int = 1
    """Of a step, for each data rank."""
    devices_per_node: int = 8
    """That a link joins; others are joined by the network."""


def command(
    job: str,
    /,
    *,
    options: Annotated[Options, Parameter(name="*")] = Options(),
    extras: Annotated[ExtraOptions, Parameter(name="*")] = ExtraOptions(),
    layout: Annotated[LayoutOptions, Parameter(name="*")] = LayoutOptions(),
) -> int:
    """Predict memory by kind and its peak, the largest batch and model that fit, a step's time and what a run costs.

    Nothing is trained: a step runs on tensors without values. Estimates for hardware that was never measured say "not
    validated".

    For example:

    - `mixprec estimate my.py --hardware rtx4090 --recipe fp32,bf16 --batch 64`
    - `mixprec estimate gpt --hardware h100 --count 8 --tokens 1000000000 --price 2.5`
    - `mixprec estimate config.json --hardware h100 --count 1024 --tensor 8 --pipeline 8 --sharding optimizer`

    Args:
        job: `gpt`, `resnet`, a Python file with `def workload(seed, device)`, or a Hugging Face `config.json`.
        options: the rest.
        extras: what is priced beside the training.
        layout: for a config.
    """
    _check(options)
    hardware = _hardware(options)
    if job.endswith(".json"):
        from ._estimate_config import estimate_config

        report = estimate_config(job, options, extras, layout, hardware)
    else:
        from ._estimate_workload import estimate_workload

        report = estimate_workload(job, options, extras, hardware)
    if options.figure is not None:
        from ._estimate_figure import write_figure

        write_figure(report.plain, options.figure)
    if options.json:
        print(json.dumps(report.plain, indent=2, allow_nan=False))
    else:
        report.print()
    return 0


def _check(options: Options) -> None:
    for name in ("count", "batch", "steps", "tokens", "samples"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} got {value}, expected at least 1")
    asked = [name for name in ("steps", "tokens", "epochs") if getattr(options, name) is not None]
    if len(asked) > 1:
        raise ValueError(f"--{' and --'.join(asked)} were given: give one of them, the length of the run")
    if options.epochs is not None and options.samples is None:
        raise ValueError("--epochs needs --samples, how many an epoch has")
    if options.figure is not None and options.figure.suffix not in (".html", ".png"):
        raise ValueError(f"--figure got '{options.figure}', expected a file that ends in .html or .png")
    if asked and options.hardware is None:
        raise ValueError(f"--{asked[0]} needs --hardware: without it no time is predicted")
    asked_recipes(options.recipe, None)


def _hardware(options: Options) -> Hardware | None:
    if options.hardware is None:
        return None
    hardware = named_hardware(options.hardware)
    return hardware if options.price is None else replace(hardware, price_per_hour=options.price)
