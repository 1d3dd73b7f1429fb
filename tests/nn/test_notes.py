"""What a conversion tells of what only a session does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.nn import convert, is_without_session, resolve
from mixprec.specs import LossScale, Moments, Phase, Recipe, Rule, recipe
from mixprec.training import prepare


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))


LATE = recipe("mxfp8", name="late", phases=(Phase(last=0.2),))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("fp16", ["nothing scales the loss, as recipe fp16 asks", 'torch.amp.GradScaler("cpu", init_scale=65536)']),
        (recipe("mxfp8", compute_dtype="fp16"), ["nothing scales the loss", "GradScaler"]),
        (
            recipe("fp16", loss_scale=LossScale(kind="static", initial=1024.0)),
            ["(static, 1024)", "multiply the loss by 1024 and divide the gradients by it"],
        ),
        (
            "bf16-kahan",
            ["weights are not kept as recipe bf16-kahan asks (kahan)", "mixprec.optim with weights='kahan'"],
        ),
        (recipe("bf16", moments=Moments(kind="e4m3")), ["moments are not kept as recipe bf16 asks (e4m3)"]),
        (LATE, ["the phases of recipe late never begin", "conversion.apply_rules(recipe.at(step, total_steps))"]),
    ],
)
def test_a_conversion_alone_says_what_it_leaves_undone_and_what_to_do(wanted: Recipe | str, words: list[str]):
    conversion = convert(mlp(), wanted)
    (note,) = [note for note in conversion.notes if is_without_session(note)]
    assert note.startswith("without a session (mixprec.prepare) ")
    for word in words:
        assert word in note
    assert note in conversion.audit().notes


def test_16_bit_parameters_without_a_master_are_told():
    (note,) = convert(mlp().bfloat16(), "bf16").notes
    assert "16-bit parameters (0.weight, ...) get no fp32 master" in note
    assert convert(mlp().bfloat16(), "bf16-true").notes == ()
    assert convert(mlp(), "bf16").notes == ()


def test_16_bit_parameters_under_fp32_are_told():
    (note, _) = convert(mlp().bfloat16(), "fp32").notes
    assert "4 parameters have 16 bits (0.weight, ...): their layers do not run in fp32" in note
    assert convert(mlp(), "fp32").notes == ()


@pytest.mark.parametrize("wanted", ["fp32", "bf16", "bf16-true", "fp8", "mxfp8", "nvfp4"])
def test_a_recipe_that_needs_no_session_has_no_such_note(wanted: str):
    assert not any(map(is_without_session, convert(mlp(), wanted).notes))


@pytest.mark.parametrize(
    ("wanted", "model", "options"),
    [("fp16", mlp(), {}), ("bf16", mlp().bfloat16(), {}), (LATE, mlp(), {"total_steps": 10})],
)
def test_a_session_does_it_and_does_not_say_so(wanted: Recipe | str, model: nn.Module, options: dict[str, int]):
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), wanted, **options)  # type: ignore[arg-type]
    session.step(model(torch.ones(4, 8, dtype=next(model.parameters()).dtype)).float().square().mean())
    told = [*(event.message for event in session.events), *session.audit().notes, str(session.audit())]
    assert not any("without a session" in text for text in told)


def test_a_session_on_a_converted_model_does_not_say_so_either():
    model = mlp()
    assert convert(model, "fp16").notes
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    session.step(model(torch.ones(4, 8)).float().square().mean())
    assert "without a session" not in str(session.audit()) + " ".join(map(str, session.events))


def test_auto_keeps_its_phases():
    late = recipe("auto", phases=(Phase(from_step=3, rules=(Rule(),)),))
    assert resolve(late, mlp()).phases == late.phases
