"""A run folder that looks like a comparison's, made without training."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from mixprec.records import (
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    EventRecord,
    Forward,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    write_records,
)

# Recipe: (offset of the final loss, its spread, seconds, share of fp32's activations, FLOPs by format, engine).
Profile = tuple[float, float, float, float, Mapping[str, int], str]
PROFILES: dict[str, Profile] = {
    "fp32": (0.0, 0.0, 0.212, 1.0, {"fp32": 1000}, "native"),
    "bf16": (0.0006, 0.0024, 0.223, 0.56, {"bf16": 1000}, "emulated"),
    "mxfp8": (0.0071, 0.0021, 0.236, 0.62, {"mxfp8 rceil": 920, "fp32": 80}, "emulated"),
    "nvfp4": (
        0.0463,
        0.0048,
        0.249,
        0.62,
        {"nvfp4 x nvfp4-2d": 614, "nvfp4 sr x nvfp4 rht16": 306, "fp32": 80},
        "emulated",
    ),
}


def comparison(seeds: int = 3, steps: int = 300) -> Iterator[Record]:
    """The records of a finished comparison of four recipes; `bf16` cannot be told from `fp32`, `nvfp4` can."""
    yield ComparisonRecord(
        workload="gpt",
        recipes=tuple(PROFILES),
        baseline="fp32",
        seeds=tuple(range(seeds)),
        steps=steps,
        machine={"cpu": "Some CPU with a long name @ 2.50GHz", "cores": 2, "threads": 2, "device": "cpu"},
        versions={"mixprec": "0.1.0", "torch": "2.13.0", "python": "3.12.4"},
        data={"name": "pydoc_data.topics", "sha256": "9f2c" * 16},
    )
    for seed in range(seeds):
        for recipe in PROFILES:
            yield from run(recipe, seed, steps)


def run(recipe: str, seed: int, steps: int) -> Iterator[Record]:
    """One run's records, its end included."""
    offset, spread, seconds, *_ = PROFILES[recipe]
    noise, own = random.Random(seed), random.Random(f"{recipe} {seed}")
    shift = offset + own.gauss(0, spread)
    for step in range(steps):
        common = 1.9 + 3.9 * math.exp(-step / (steps / 8)) + noise.gauss(0, 0.06)
        applied = not (recipe == "nvfp4" and step in (7, 40))
        yield StepRecord(
            recipe=recipe,
            seed=seed,
            step=step,
            loss=common + shift * step / steps + own.gauss(0, 0.006 if offset else 0.0),
            seconds=seconds * own.uniform(0.97, 1.05),
            applied=applied,
            grad_norm=1.0,
            loss_scale=None,
            tokens=1024,
        )
        if not applied:
            message = "skipped: inf in blocks.3.mlp.fc2 (grad_output)"
            yield EventRecord(
                recipe=recipe,
                seed=seed,
                step=step,
                name="skipped",
                site="blocks.3.mlp.fc2 (grad_output)",
                message=message,
            )
        if step == 2:
            yield from measurements(recipe, seed)
        if (step + 1) % (steps // 4) == 0:
            loss = 1.93 + 3.9 * math.exp(-(step + 1) / (steps / 8)) + shift * (step + 1) / steps + 0.01 * seed
            yield evaluation(recipe, seed, step + 1, "recipe", loss)
            yield evaluation(recipe, seed, step + 1, "fp32", loss - 0.3 * shift)
    yield RunEndRecord(recipe=recipe, seed=seed, status="done")


def measurements(recipe: str, seed: int) -> Iterator[Record]:
    """What is measured once for each run."""
    _, _, _, share, formats, engine = PROFILES[recipe]
    rows = tuple(
        CoverageRow(
            site=f"blocks.{i}.fc", gemm="fprop", format=name, engine="native" if name == "fp32" else engine, flops=n
        )
        for i, (name, n) in enumerate(formats.items())
    )
    yield CoverageRecord(recipe=recipe, seed=seed, rows=rows, uncovered=("head (dgrad)",) if recipe == "nvfp4" else ())
    saved = {f"blocks.{i}.mlp.fc": round(4_000_000 * share) + 1000 * i for i in range(14)} | {"<loss>": 1_300_000}
    yield MemoryRecord(
        recipe=recipe,
        seed=seed,
        saved_activation_bytes=sum(saved.values()),
        peak_bytes=round(60_000_000 + 91_000_000 * share),
        rss_bytes=1_310_000_000,
        parameters=3_000_000,
        bytes_by_kind={
            "weights": 12_000_000,
            "masters": 0,
            "moments": 24_000_000,
            "counters": 400,
            "gradients": 12_000_000,
            "buffers": 65_536,
            "cast workspaces": 0 if recipe == "fp32" else 2_000_000,
            "saved activations": sum(saved.values()),
        },
        saved_by_site=saved,
    )


def evaluation(recipe: str, seed: int, step: int, forward: Forward, loss: float) -> EvaluationRecord:
    metrics = {"loss": loss, "accuracy": 0.6 - 0.05 * loss, "loss/code": loss + 0.2, "loss/prose": loss - 0.1}
    return EvaluationRecord(recipe=recipe, seed=seed, step=step, forward=forward, metrics=metrics)


def write_run_folder(path: Path, records: Iterator[Record] | None = None) -> Path:
    """The folder with its records and recipes."""
    (path / "recipes").mkdir(parents=True)
    for recipe in PROFILES:
        text = f'name = "{recipe}"\ncompute_dtype = "fp32"\n\n[[rules]]\ntype = "Linear"\n'
        (path / "recipes" / f"{recipe}.toml").write_text(text, encoding="utf-8")
    write_records(path / "records.jsonl", comparison() if records is None else records)
    return path
