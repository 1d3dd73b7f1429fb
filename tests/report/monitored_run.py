"""A session's run folder with what a monitor records, made without training: fp16 whose gradients fade."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from mixprec.records import (
    EventRecord,
    FindingRecord,
    Record,
    StatisticsRecord,
    StepRecord,
    UpdateRecord,
    write_records,
)

RECIPE, SEED, STEPS = "fp16", 0, 400
SAMPLED = tuple(range(0, STEPS, 50))
LAYERS = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
SITES = (*(f"blocks.{block}.{layer}" for block in range(8) for layer in LAYERS), "head")
ROLES = ("input", "weight", "grad_output")

#: The finest number of fp16 and its smallest normal one, as exponents; values below half the finest become zero.
TINY, NORMAL = -24, -14


def loss_scale(step: int) -> float:
    return 65536.0 if step < 20 else 32768.0 if step < 60 else 65536.0 if step < 260 else 131072.0


def exponents(middle: float, spread: float, elements: int) -> dict[str, int]:
    """A bell over the binades, whole counts."""
    low, high = round(middle - 4 * spread), round(middle + 4 * spread)
    weights = {k: math.exp(-(((k - middle) / spread) ** 2) / 2) for k in range(low, high + 1)}
    total = sum(weights.values())
    return {str(k): n for k, w in weights.items() if (n := round(elements * w / total))}


def tensor(step: int, site: str, role: str, **changed: object) -> StatisticsRecord:
    """The figures follow from the histogram, as they would for fp16 without a scale of its own."""
    depth = SITES.index(site) / len(SITES)
    middle = {"input": -2.0, "weight": -6.0, "grad_output": -13.5 - 8 * (1 - depth) - step / 200}[role]
    counts = exponents(middle, 2.4 if role == "grad_output" else 1.6, 65536)
    nonzero = sum(counts.values())
    flushed = sum(n for k, n in counts.items() if int(k) < TINY - 1) / nonzero
    subnormal = sum(n for k, n in counts.items() if TINY - 1 <= int(k) < NORMAL) / nonzero
    facts: dict[str, object] = {
        **{"cast": "fp16", "in_use": True, "elements": 70_000, "zeros": 1 - nonzero / 70_000, "nonfinite": 0},
        **{"amax": 1.5 * 2.0 ** max(map(int, counts)), "flushed": flushed, "subnormal": subnormal, "saturated": 0.0},
        **{"sqnr_db": 74.0 - 60 * flushed - 20 * subnormal, "relative_error": 1e-4, "bias": -1e-6, "exponents": counts},
    }
    return StatisticsRecord(recipe=RECIPE, seed=SEED, step=step, site=site, role=role, **{**facts, **changed})  # pyright: ignore[reportArgumentType]


def sample(step: int) -> Iterator[Record]:
    """One sampled step: what is in use, and what FP8 would do."""
    for site in SITES:
        for role in ROLES:
            yield tensor(step, site, role)
            share = 0.02 if (site, role) == ("blocks.3.mlp.fc2", "input") else 0.0
            yield tensor(step, site, role, cast="e4m3[tensor]", in_use=False, saturated=share, sqnr_db=31.5)
        yield UpdateRecord(
            **{"recipe": RECIPE, "seed": SEED, "step": step, "site": f"{site}.weight", "dtype": "fp32"},
            **{"weight_norm": 8.0, "gradient_norm": 0.1, "update_norm": 0.01, "ratio": 0.00125, "lost": 0.0},
        )


def monitored() -> Iterator[Record]:
    """The records of the run."""
    noise = random.Random(0)
    skipped = {20, 21, 300}
    for step in range(STEPS):
        if step in skipped:
            yield _step(step, math.inf if step == 300 else 2.5, applied=False)
            yield EventRecord(
                recipe=RECIPE, seed=SEED, step=step, name="skipped", site="head (grad_output)",
                message=f"skipped: inf in head (grad_output), fp16 limit 65504; loss scale was {loss_scale(step):g}",
            )  # fmt: skip
        yield _step(step, 1.9 + 3.9 * math.exp(-step / 50) + noise.gauss(0, 0.05), applied=True)
        if step in SAMPLED:
            yield from sample(step)
        if step == 210:
            yield FindingRecord(
                recipe=RECIPE, seed=SEED, step=210, name="loss spike", severity="warning", site="",
                message="the loss is 3.91, 14 MAD above the median 1.98", evidence={"loss": 3.91, "median": 1.98},
                threshold="12 MAD and 25 % of the median", remedy="look at the batches of steps 208 to 210",
            )  # fmt: skip
        if step == 350:
            yield FindingRecord(
                recipe=RECIPE, seed=SEED, step=350, name="flushed", severity="fault",
                site="blocks.0.attn.qkv (grad_output)",
                message="51 % of the non-zero elements become zero", evidence={"flushed": 0.51},
                threshold="50 % of the non-zero elements", remedy="keep this gradient in bf16",
                rule='[[rules]]\nname = "blocks.0.attn.qkv"\ngrad_output = "bf16"',
            )  # fmt: skip


def _step(step: int, loss: float, *, applied: bool) -> StepRecord:
    return StepRecord(
        recipe=RECIPE, seed=SEED, step=step, loss=loss, seconds=0.21, applied=applied,
        grad_norm=0.8 if applied else math.inf, loss_scale=loss_scale(step), tokens=4096,
    )  # fmt: skip


def write_monitored_run(path: Path) -> Path:
    """The folder as a session leaves it."""
    path.mkdir(parents=True)
    (path / "recipe.toml").write_text('name = "fp16"\ncompute_dtype = "fp16"\n', encoding="utf-8")
    write_records(path / "records.jsonl", monitored())
    return path
