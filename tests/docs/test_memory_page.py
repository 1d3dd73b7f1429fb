"""The page on memory: its tables against what sessions measure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import mixprec
from mixprec.optim import SGD, AdamW
from mixprec.specs import Moments, Recipe
from mixprec.training import Memory

PAGE = Path(__file__).parents[2] / "docs" / "numerics" / "memory.md"
SMALL = 4096


def table(heading: str) -> dict[str, list[str]]:
    """The rows of the page's table whose first heading this is, by their first cell."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[start + 2 :])
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {row[0].replace("`", ""): row[1:] for row in cells}


WEIGHTS = {name: [float(cell) for cell in row] for name, row in table("weights").items()}
MOMENTS = {name: [float(cell) for cell in row] for name, row in table("moments").items()}


def layers() -> nn.Module:
    """Tensors of whole blocks, small ones, and one whose last block is not full: 305,508 parameters."""
    return nn.Sequential(nn.Linear(384, 384), nn.Linear(384, 384), nn.Linear(384, 25, bias=False), nn.Linear(25, 12))


def moments_of(name: str) -> Moments:
    kind, _, block = name.partition(", block ")
    return Moments(kind=kind, block=int(block or 256), small=SMALL)  # pyright: ignore[reportArgumentType]


def measured(weights: str, moments: str, optimizer: Any, *, passes: int = 1, **options: Any) -> Memory:
    model = layers()
    if weights == "master":
        model = model.to(torch.bfloat16)
    recipe = Recipe(
        name="page",
        compute_dtype="fp32" if weights == "fp32" else "bf16",
        weights="master" if weights == "fp32" else weights,  # pyright: ignore[reportArgumentType]
        moments=moments_of(moments),
    )
    session = mixprec.prepare(model, optimizer(model.parameters(), lr=1e-3, **options), recipe)
    for _ in range(passes):
        session.backward(model(torch.randn(8, 384)).square().mean())
    session.step()
    return session.memory()


def per_element(row: Iterable[float], sizes: Iterable[int]) -> list[float]:
    total = sum(sizes)
    return [n * total for n in row]


def moment_bytes(name: str, size: int) -> float:
    """Of one moment of a tensor: the table's, small tensors in fp32, the last block whole."""
    moments = moments_of(name)
    if size < SMALL or moments.kind in ("fp32", "bf16"):
        return size * (MOMENTS["fp32"] if size < SMALL else MOMENTS[name])[0]
    blocks = -(-size // moments.block)
    beside = (MOMENTS[name][0] - 1) * moments.block  # for each block
    return size + blocks * beside


SIZES = [p.numel() for p in layers().parameters()]


@pytest.mark.parametrize(("weights", "moments"), list(itertools.product(WEIGHTS, MOMENTS)))
def test_adamw(weights: str, moments: str):
    memory = measured(weights, moments, AdamW)
    weight, beside, gradient, _ = per_element(WEIGHTS[weights], SIZES)
    assert memory.parameters == sum(SIZES)
    assert (memory.weights, memory.masters, memory.most_gradients) == (weight, beside, gradient)
    assert memory.moments == 2 * sum(moment_bytes(moments, n) for n in SIZES)
    assert memory.counters <= 4 * len(SIZES)


@pytest.mark.parametrize("moments", list(MOMENTS))
def test_sgd_keeps_one_moment(moments: str):
    memory = measured("split", moments, SGD, momentum=0.9)
    assert memory.moments == sum(moment_bytes(moments, n) for n in SIZES)


@pytest.mark.parametrize("weights", list(WEIGHTS))
def test_gradients_of_several_passes_are_fp32(weights: str):
    memory = measured(weights, "fp32", AdamW, passes=2)
    assert memory.most_gradients == per_element(WEIGHTS[weights], SIZES)[3]


@pytest.mark.parametrize("weights", [name for name in WEIGHTS if name != "true"])
def test_an_optimizer_of_torch_keeps_its_moments_in_fp32(weights: str):
    memory = measured(weights, "fp32", torch.optim.AdamW)
    weight, beside, gradient, _ = per_element(WEIGHTS[weights], SIZES)
    assert (memory.weights, memory.masters, memory.most_gradients) == (weight, beside, gradient)
    assert memory.moments == 2 * MOMENTS["fp32"][0] * sum(SIZES)


def test_an_average_takes_four_bytes():
    model = layers().to(torch.bfloat16)
    session = mixprec.prepare(model, AdamW(model.parameters()), "bf16")
    session.average(0.9)
    assert session.memory().other["averages"] == 4 * sum(SIZES)


def test_both_columns_of_moments_agree():
    assert all(two == 2 * one for one, two in MOMENTS.values())


def test_the_sums_are_the_parts():
    columns = ("fp32", "bf16", "e4m3, block 256")
    for weights, cells in table("AdamW").items():
        weight, beside, gradient, _ = WEIGHTS[weights]
        sums = [weight + beside + gradient + MOMENTS[moments][1] for moments in columns]
        assert [float(cell) for cell in cells] == [round(n, 2) for n in sums], weights


def test_every_way_to_keep_them_is_on_the_page():
    assert set(WEIGHTS) == {"fp32", "master", "split", "kahan", "stochastic", "true"}
    blocks = {f"{kind}, block {block}" for kind in ("e4m3", "dynamic") for block in (128, 256)}
    assert set(MOMENTS) == {"fp32", "bf16", *blocks}
    for name, row in MOMENTS.items():
        moments = moments_of(name)
        if moments.kind in ("e4m3", "dynamic"):
            powers = 1 / moments.block if moments.kind == "e4m3" else 0
            assert row[0] == 1 + 4 / moments.block + powers
