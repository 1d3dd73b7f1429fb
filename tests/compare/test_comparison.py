from __future__ import annotations

import itertools
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mixprec.compare import WorkloadError
from mixprec.compare._comparison import check
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe
from tests.compare.fits import batch_of, comparison, fit, loss, source


def test_the_header_holds_what_a_result_depends_on():
    header = check(comparison("fp32", "bf16", seeds=(0, 3)))
    assert (header.workload, tuple(header.recipes), tuple(header.seeds)) == ("fit", ("fp32", "bf16"), (0, 3))
    assert (header.baseline, header.steps) == ("fp32", 6)
    assert header.machine["threads"] == torch.get_num_threads()
    assert header.versions["torch"] == torch.__version__


def test_names_that_are_one_file_are_refused():
    with pytest.raises(ValueError, match=r"recipes 'my own' and 'my-own' would be one file"):
        comparison(recipes=(recipe("fp32", name="my own"), recipe("bf16", name="my-own")))


@pytest.mark.parametrize(
    ("names", "changes", "message"),
    [
        ((), {}, "needs a recipe and a seed, got 0 and 1"),
        (("fp32",), {"seeds": ()}, "got 1 and 0"),
        (("fp32", "fp32"), {}, "recipe fp32 is named more than once"),
        (("fp32",), {"seeds": (1, 1)}, "seed 1 is named more than once"),
        (("fp32", "bf16"), {"baseline": "bf61"}, "unknown baseline 'bf61': expected one of fp32, bf16; did you mean"),
    ],
)
def test_comparisons_that_are_none(names: tuple[str, ...], changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        comparison(*names, **changes)


OUTSIDE = nn.Linear(4, 1)
COUNT = itertools.count()
KEPT = batch_of(0, 0)


def batch_by_python(step: int) -> tuple[Tensor, Tensor]:
    """Drawn from a random state that nobody seeds."""
    return batch_of(0, random.randrange(2**40))


def loss_that_writes(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    batch[0].mul_(2)
    return loss(model, batch)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batches": lambda step: batch_of(0, next(COUNT))}, r"batches\(0\)\[0\] is not the same at every call"),
        ({"batches": lambda step: batch_by_python(step)}, r"batches\(0\)\[0\] is not the same at every call"),
        ({"loss": loss_that_writes, "batches": lambda step: KEPT}, r"leave a batch that is handed out unchanged"),
        ({"loss": lambda model, batch: loss(model, batch) * math.nan}, r"loss\(model, batches\(0\)\) is NaN for"),
        (
            {"evaluate": lambda model: {"loss": math.nan}},
            r"evaluate\(model\)\[\"loss\"\] is NaN for the untrained model",
        ),
        ({"loss": lambda model, batch: 3.0}, r"loss\(model, batch\) returned float, expected a tensor of one value"),
        ({"loss": lambda model, batch: model(batch[0])}, r"returned a tensor of shape \(64, 1\)"),
        ({"loss": lambda model, batch: model(batch[0]).mean().detach()}, "needs no gradient"),
        ({"loss": lambda model, batch: OUTSIDE(batch[0]).mean()}, "depends on no parameter of the model"),
        ({"optimizer": lambda parameters: None}, r"returned NoneType, expected torch.optim.Optimizer"),
        ({"schedule": lambda step: "fast"}, r"schedule\(0\) is str, expected a number"),
        ({"evaluate": lambda model: 3.0}, r"evaluate\(model\) returned float, expected named metrics"),
        ({"evaluate": lambda model: {"accuracy": 1.0}}, r"returned \['accuracy'\], expected .*\"loss\""),
        ({"evaluate": lambda model: {"loss": "low"}}, r"evaluate\(model\)\['loss'\] is str, expected a number"),
    ],
)
def test_workloads_that_do_not_work(changes: dict[str, Any], message: str):
    broken = source(lambda seed, device: fit(seed, device, **changes))
    with pytest.raises(WorkloadError, match=message):
        check(comparison("fp32", source=broken))


def test_batches_that_draw_from_torchs_own_random_state_are_the_same_for_every_recipe():
    drawn = source(lambda seed, device: fit(seed, device, batches=lambda step: (torch.randn(8, 4), torch.randn(8, 1))))
    assert check(comparison("fp32", source=drawn)).steps == 6


def test_another_metric_may_have_no_value_before_training():
    job = source(lambda seed, device: fit(seed, device, evaluate=lambda model: {"loss": 1.0, "precision": math.nan}))
    assert check(comparison("fp32", source=job)).steps == 6


def test_a_rule_that_matches_no_layer_is_told_before_anything_runs():
    rule = Rule(match="hiden", precision=LayerPrecision.uniform("mxfp8"))
    with pytest.raises(ValueError, match="hidden"):
        check(comparison(recipes=(Recipe(name="mine", rules=(rule,)),)))


@pytest.mark.parametrize("device", ["nothing", "cuda:99"])
def test_a_device_that_is_not_there(device: str):
    with pytest.raises(ValueError, match=f"device '{device}' cannot be used here"):
        check(comparison("fp32", device=device))
