"""Predicted memory against what a session and the profiler measure."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mixprec.compare._memory import peak_memory
from mixprec.optim import SGD, AdamW
from mixprec.planner import MemoryForecast, predict_memory
from mixprec.specs import Moments, Recipe, load_recipe
from mixprec.training import Memory, prepare

from .jobs import JOBS, Job, square

RECIPES: dict[str, Callable[[], Recipe]] = {
    "fp32": lambda: load_recipe("fp32"),
    "bf16": lambda: load_recipe("bf16"),
    "mxfp8": lambda: load_recipe("mxfp8"),
    "bf16-sr, 8-bit moments": lambda: replace(load_recipe("bf16-sr"), moments=Moments(kind="e4m3")),
}
MORE: dict[str, Callable[[], Recipe]] = {
    "bf16-split, bf16 moments": lambda: replace(load_recipe("bf16-split"), moments=Moments(kind="bf16")),
    "bf16-kahan, dynamic moments": lambda: replace(load_recipe("bf16-kahan"), moments=Moments(kind="dynamic")),
    "bf16-true": lambda: load_recipe("bf16-true"),
    "nvfp4": lambda: load_recipe("nvfp4"),
    "fp16": lambda: load_recipe("fp16"),
    "fp16, residual in fp16": lambda: replace(load_recipe("fp16"), residual="compute"),
}
adamw = partial(AdamW, lr=1e-3)


def measured(job: Job, recipe: Recipe, make: Callable[..., torch.optim.Optimizer]) -> tuple[Memory, int]:
    """What a session holds after three steps, and the third one's peak."""
    model, loss, batch = copy.deepcopy(job[0]).train(), job[1], job[2]
    session = prepare(model, make(model.parameters()), recipe)
    for _ in range(2):
        session.step(loss(model, batch))
    with peak_memory(torch.device("cpu"), lambda: session.memory().held) as peak:
        session.step(loss(model, batch))
    return session.memory(), peak.bytes


def assert_close(forecast: MemoryForecast, memory: Memory, peak: int) -> None:
    kinds, found = forecast.by_kind, memory.by_kind
    assert kinds.keys() >= found.keys()
    for kind, n in kinds.items():
        assert n == pytest.approx(found.get(kind, 0), rel=0.05, abs=64), kind
    assert memory.saved is not None
    assert forecast.saved == pytest.approx(memory.saved, rel=0.05, abs=64)
    assert forecast.peak == pytest.approx(peak, rel=0.05)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("job", JOBS)
def test_kinds_and_peak(job: str, recipe: str) -> None:
    torch.manual_seed(0)
    made, wanted = JOBS[job](), RECIPES[recipe]()
    forecast = predict_memory(*made, wanted, optimizer=adamw)
    assert not forecast.notes
    assert_close(forecast, *measured(made, wanted, adamw))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", MORE)
@pytest.mark.parametrize("job", JOBS)
def test_more_recipes(job: str, recipe: str) -> None:
    made, wanted = JOBS[job](), MORE[recipe]()
    assert_close(predict_memory(*made, wanted, optimizer=adamw), *measured(made, wanted, adamw))


def test_sums_of_a_residual_stream_in_fp16() -> None:
    made, wanted = JOBS["gpt"](), MORE["fp16, residual in fp16"]()
    assert_close(predict_memory(*made, wanted, optimizer=adamw), *measured(made, wanted, adamw))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["fp32", "bf16", "bf16-true", "bf16-sr"])
@pytest.mark.parametrize(
    "make",
    [
        partial(torch.optim.AdamW, lr=1e-3),
        partial(torch.optim.SGD, lr=0.1, momentum=0.9),
        partial(torch.optim.Adafactor, lr=0.1),
        partial(SGD, lr=0.1, momentum=0.9),
    ],
    ids=["torch AdamW", "torch SGD", "torch Adafactor", "SGD"],
)
def test_optimizers(make: Callable[..., torch.optim.Optimizer], recipe: str) -> None:
    job = JOBS["resnet"]()
    assert_close(predict_memory(*job, recipe, optimizer=make), *measured(job, load_recipe(recipe), make))


class Routed(nn.Module):
    """Asks for values."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        return self.second(x) if x.sum().item() > -1.0 else x


@pytest.mark.parametrize("recipe", ["fp32", "bf16-sr"])
def test_real_steps_where_values_are_asked_for(recipe: str) -> None:
    job = (Routed(), square, torch.randn(512, 64))
    before = copy.deepcopy(job[0].state_dict())
    forecast = predict_memory(*job, recipe, optimizer=adamw)
    assert "one real step" in forecast.notes[0]
    assert all(torch.equal(before[name], value) for name, value in job[0].state_dict().items())
    assert_close(forecast, *measured(job, load_recipe(recipe), adamw))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = x + checkpoint(block, x, use_reentrant=False)  # pyright: ignore[reportOperatorIssue]
        return x


@pytest.mark.parametrize("recipe", ["fp32", "bf16"])
def test_activation_checkpointing(recipe: str) -> None:
    job = (Checkpointed(), square, torch.randn(512, 64))
    assert_close(predict_memory(*job, recipe, optimizer=adamw), *measured(job, load_recipe(recipe), adamw))


def test_shared_weights_count_once() -> None:
    layer = nn.Linear(8, 8)
    forecast = predict_memory(nn.Sequential(layer, layer), square, torch.ones(4, 8), "fp32", optimizer=adamw)
    assert (forecast.parameters, forecast.weights, forecast.moments) == (72, 288, 576)


def test_the_meta_device() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(2**14, 2**14, bias=False), nn.Linear(2**14, 1, bias=False))
    batch = torch.empty(64, 2**14, device="meta")
    forecast = predict_memory(model, square, batch, "bf16-true", optimizer=adamw)
    n = 2**28 + 2**14
    assert (forecast.weights, forecast.moments, forecast.gradients) == (2 * n, 8 * n, 2 * n)


def test_it_prints_as_a_table() -> None:
    text = str(predict_memory(*JOBS["resnet"](), "bf16", optimizer=adamw))
    assert text.startswith("memory of recipe bf16, predicted: 22,074 parameters")
    assert "peak" in text
    assert "saved activations" in text


def test_a_recipe_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="unknown recipe"):
        predict_memory(*JOBS["resnet"](), "nonsense", optimizer=adamw)
