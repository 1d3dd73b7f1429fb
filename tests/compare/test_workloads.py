from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from mixprec.compare.workloads import BUILT_IN
from mixprec.compare.workloads.gpt import GPTConfig
from mixprec.compare.workloads.gpt import workload as gpt


@pytest.mark.parametrize("name", BUILT_IN)
def test_same_seed_same_weights_and_batches(name: str):
    first, again, other = (BUILT_IN[name](seed, "cpu", steps=3) for seed in (0, 0, 1))
    for key, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[key])
    for step in (0, 2):
        assert all(torch.equal(a, b) for a, b in zip(first.batches(step), again.batches(step), strict=True))
    assert not torch.equal(first.batches(0)[0], other.batches(0)[0])
    assert not torch.equal(first.batches(0)[0], first.batches(1)[0])


@pytest.mark.parametrize("name", BUILT_IN)
def test_starts_at_chance_and_learns(name: str):
    job = BUILT_IN[name](0, "cpu", steps=30)
    optimizer = job.optimizer(job.model.parameters())
    rates = [group["lr"] for group in optimizer.param_groups]
    losses: list[float] = []
    for step in range(job.steps):
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * job.schedule(step)  # pyright: ignore[reportOptionalCall]
        loss = job.loss(job.model, job.batches(step))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    classes = {"gpt": 103, "resnet": 10}[name]
    assert losses[0] == pytest.approx(math.log(classes), abs=0.3)
    assert losses[-1] < 0.85 * losses[0]


def test_gpt_sees_no_later_character():
    job = gpt(0, "cpu")
    ids = job.batches(0)[0][:1].clone()
    before = job.model(ids)
    ids[0, 40:] = 0
    after = job.model(ids)
    torch.testing.assert_close(before[:, :40], after[:, :40])
    assert not torch.allclose(before[:, 40:], after[:, 40:])


def test_gpt_names_its_layers():
    job = gpt(0, "cpu", config=GPTConfig(layers=1))
    linears = [name for name, module in job.model.named_modules() if isinstance(module, torch.nn.Linear)]
    assert linears == ["blocks.0.attn.qkv", "blocks.0.attn.o", "blocks.0.mlp.fc1", "blocks.0.mlp.fc2", "head"]


def test_gpt_trains_and_evaluates_on_different_parts(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("a" * 900 + "b" * 100)
    job = gpt(0, "cpu", data=file)
    assert all(int(job.batches(step)[1].max()) == 0 for step in range(20))
    assert set(job.evaluate(job.model)) == {"loss", "loss/letters"}


def test_gpt_takes_the_shortest_text_that_holds_two_contexts(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_text("ab" * 330)
    assert gpt(0, "cpu", data=file).evaluate(gpt(0, "cpu", data=file).model)["loss"] > 0
    file.write_text("ab" * 329)
    with pytest.raises(ValueError, match="has 658 characters: the workload needs a text of at least 660"):
        gpt(0, "cpu", data=file)


def test_gpt_refuses_a_width_that_its_heads_do_not_divide():
    with pytest.raises(ValueError, match="width 64 is not a multiple of heads 5"):
        GPTConfig(heads=5)


def test_resnet_tests_on_images_that_it_does_not_train_on():
    job = BUILT_IN["resnet"](0, "cpu")
    train = {tuple(image.flatten().tolist()) for step in range(22) for image in job.batches(step)[0]}
    assert len(train) > 1390
    metrics = job.evaluate(job.model.eval())
    assert {"loss", "accuracy", "accuracy/digit-0", "accuracy/digit-9"} <= set(metrics)
