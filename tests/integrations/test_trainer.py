"""A converted model in other people's loops: transformers' Trainer, Accelerate, a hand-written one under autocast."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import mixprec
from mixprec.nn import conversion_of

from .models import batch, build, transformers

accelerate = pytest.importorskip("accelerate")

RECIPES = ("bf16", "fp16", "mxfp8", "nvfp4")


@pytest.fixture(autouse=True)
def _fresh_accelerate() -> Generator[None]:
    """Accelerate keeps one state for the process, with the first precision that was asked for."""
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


class Sequences(Dataset[dict[str, Tensor]]):
    """Eight sequences that count in steps of one, two and three."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        tokens = (torch.arange(12) * (index % 3 + 1) + index) % 48 + 2
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def trainer(model: Any, folder: Any, *, recompute: bool = False, **options: Any) -> Any:
    """Four steps on the CPU that write nothing but what is asked for."""
    known = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    spelling = "activation_checkpointing" if "activation_checkpointing" in known else "gradient_checkpointing"
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        max_steps=4,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=0,
        **{spelling: recompute},
        **options,
    )
    return transformers.Trainer(model=model, args=arguments, train_dataset=Sequences(), eval_dataset=Sequences())


def losses(made: Any) -> list[float]:
    made.train()
    return [entry["loss"] for entry in made.state.log_history if "loss" in entry]


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("name", RECIPES)
def test_trainer(name: str, kind: str, tmp_path: Any) -> None:
    model = build(kind)
    conversion = mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
    made = trainer(model, tmp_path)
    curve = losses(made)
    assert len(curve) == 4
    assert all(later < earlier for earlier, later in itertools.pairwise(curve))
    assert made.evaluate()["eval_loss"] < curve[-1]
    assert made.predict(Sequences()).predictions.dtype == "float32"
    made.save_model(tmp_path)
    loaded = type(build(kind)).from_pretrained(tmp_path)
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in loaded.state_dict().items())
    assert conversion_of(model) is conversion


@pytest.mark.parametrize("name", RECIPES)
def test_trainer_with_recomputation_gives_the_same_losses(name: str, tmp_path: Any) -> None:
    curves = []
    for recompute in (False, True):
        model = build("llama")
        mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
        curves.append(losses(trainer(model, tmp_path, recompute=recompute)))
    assert curves[0] == curves[1]


def test_trainers_own_bf16_changes_nothing(tmp_path: Any) -> None:
    curves = []
    for bf16 in (False, True):
        model = build("llama")
        mixprec.convert(model, mixprec.recipe("mxfp8", engine="emulated"))
        curves.append(losses(trainer(model, tmp_path, bf16=bf16)))
    assert curves[0] == curves[1]


def test_trainer_near_fp32(tmp_path: Any) -> None:
    want = losses(trainer(build("llama"), tmp_path))
    model = build("llama")
    mixprec.convert(model, mixprec.recipe("bf16", engine="emulated"))
    assert losses(trainer(model, tmp_path)) == pytest.approx(want, abs=0.02)


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("name", RECIPES)
def test_accelerate(name: str, precision: str) -> None:
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)
    model = build("llama")
    mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(Sequences(), batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    curve = []
    for _ in range(2):
        for inputs in loader:
            outputs = model(**inputs)
            assert outputs.logits.dtype == torch.float32
            accelerator.backward(outputs.loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            curve.append(outputs.loss.item())
    assert curve[-1] < curve[0]
    inner = accelerator.unwrap_model(model)
    assert conversion_of(inner) is not None
    build("llama").load_state_dict(accelerator.get_state_dict(model))


def hand_written(recipe: mixprec.Recipe, *, autocast: bool, session: bool) -> list[float]:
    """A user's own loop, all of it inside one autocast region if asked."""
    model = build("llama")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    step = mixprec.prepare(model, optimizer, recipe, loss_scale="none").step if session else None
    if not session:
        mixprec.convert(model, recipe)
    curve = []
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for _ in range(4):
            loss = model(**batch("llama")).loss
            if step is not None:
                step(loss)
            else:
                with torch.autocast("cpu", enabled=False):  # as torch asks: no backward pass under autocast
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            curve.append(loss.item())
    return curve


@pytest.mark.parametrize("session", [False, True])
@pytest.mark.parametrize("name", RECIPES)
def test_an_outer_autocast_region_changes_nothing(name: str, session: bool) -> None:
    recipe = mixprec.recipe(name, engine="emulated")
    inside, outside = (hand_written(recipe, autocast=autocast, session=session) for autocast in (True, False))
    assert inside == outside
    assert inside[-1] < inside[0]


@pytest.mark.parametrize("name", RECIPES)
def test_session(name: str) -> None:
    model = build("gpt2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = mixprec.prepare(model, optimizer, mixprec.recipe(name, engine="emulated"), clip_norm=1.0)
    curve = []
    for _ in range(5):
        outputs = model(**batch("gpt2"))
        if session.step(outputs.loss).applied:
            curve.append(float(outputs.loss.detach()))
    assert len(curve) >= 3
    assert curve[-1] < curve[0]
    assert "transformer.h.0.attn.c_attn" in str(session.audit())
    session.restore()
    assert type(model) is transformers.GPT2LMHeadModel
