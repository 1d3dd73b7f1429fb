"""A comparison as large as a report must bear: eight recipes, five seeds, two thousand steps, a thousand sites."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from mixprec.records import (
    ComparisonRecord,
    CoverageRecord,
    CoverageRow,
    EvaluationRecord,
    MemoryRecord,
    Record,
    RunEndRecord,
    StepRecord,
    write_records,
)

#: Name to the shift of its loss and the format of its inner layers; one name has a space, one other letters, one HTML.
RECIPES = {
    "fp32": (0.0, "fp32"),
    "bf16": (0.0004, "bf16"),
    "mxfp8 rceil": (0.002, "mxfp8 rceil"),
    "fp8 größe": (0.003, "e4m3 x e4m3"),
    "nvfp4 <b>&\"'": (0.04, "nvfp4 x nvfp4-2d"),
    "mxfp4": (0.08, "mxfp4"),
    "int8": (0.01, "int8"),
    "混合精度": (0.02, "mxfp6"),
}
SITES = 1000


def large_comparison(seeds: int = 5, steps: int = 2000, sites: int = SITES) -> Iterator[Record]:
    """Its records; nothing in it is random but what the seeds say."""
    yield ComparisonRecord(
        workload="a large <i>model</i>.py",
        recipes=tuple(RECIPES),
        baseline="fp32",
        seeds=tuple(range(seeds)),
        steps=steps,
        machine={"cpu": "Some CPU", "cores": 2, "threads": 2, "device": "cpu"},
        versions={"mixprec": "0.1.0", "torch": "2.13.0", "python": "3.12.4"},
        data={"name": "text <b>", "sha256": "0a" * 32},
    )
    for seed in range(seeds):
        for recipe in RECIPES:
            yield from _run(recipe, seed, steps, sites)


def _run(recipe: str, seed: int, steps: int, sites: int) -> Iterator[Record]:
    shift, form = RECIPES[recipe]
    data, own = random.Random(seed), random.Random(f"{recipe} {seed}")
    final = shift + own.gauss(0, 0.004 if shift else 0.0)
    for step in range(steps):
        yield StepRecord(
            recipe=recipe,
            seed=seed,
            step=step,
            loss=2 + 4 * math.exp(-8 * step / steps) + data.gauss(0, 0.06) + final * step / steps + own.gauss(0, 0.004),
            seconds=0.2 + 0.02 * own.random() + (0.3 if step % 97 == 0 else 0.0),
            applied=True,
            grad_norm=1.0,
            loss_scale=None,
            tokens=1024,
        )
    for forward in ("recipe", "fp32"):
        yield EvaluationRecord(
            recipe=recipe, seed=seed, step=steps, forward=forward, metrics={"loss": 2.0 + 0.02 * seed + final}
        )
    if seed == 0:
        yield from _measured(recipe, form, sites)
    yield RunEndRecord(recipe=recipe, seed=seed, status="done")


def _measured(recipe: str, form: str, sites: int) -> Iterator[Record]:
    kinds = ("attn.qkv", "attn.out", "mlp.fc1", "mlp.fc2")
    names = [f"blocks.{i // 4}.{kinds[i % 4]}" for i in range(sites - 1)] + ['head <img src=x onerror="alert(1)">']
    engine = "native" if form == "fp32" else "emulated"
    rows = tuple(
        CoverageRow(site=name, gemm=gemm, format="fp32" if i % 50 == 49 else form, engine=engine, flops=1000)
        for i, name in enumerate(names)
        for gemm in ("fprop", "dgrad", "wgrad")
    )
    yield CoverageRecord(recipe=recipe, seed=0, rows=rows, uncovered=())
    saved = dict.fromkeys(names, 1000)
    yield MemoryRecord(
        recipe=recipe,
        seed=0,
        saved_activation_bytes=1000 * sites,
        peak_bytes=4000 * sites,
        rss_bytes=10_000 * sites,
        parameters=1000 * sites,
        bytes_by_kind={"weights": 4000 * sites, "moments": 8000 * sites, "saved activations": 1000 * sites},
        saved_by_site=saved,
    )


def write_large_run(path: Path) -> Path:
    """The folder with its records and recipes."""
    (path / "recipes").mkdir(parents=True)
    for i, recipe in enumerate(RECIPES):
        (path / "recipes" / f"r{i}.toml").write_text(f"name = {recipe!r}\n", encoding="utf-8")
    write_records(path / "records.jsonl", large_comparison())
    return path
