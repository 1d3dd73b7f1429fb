"""Parts of a checkpoint: states of every schema, names under wrappers, buffers, weights from elsewhere."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from mixprec.monitor import load_random_states, random_states
from mixprec.specs import recipe
from mixprec.training._full_weights import full_weights
from mixprec.training._model_state import check_model_values, load_model_buffers, model_buffers
from mixprec.training._parameter_names import plain_name, renamed
from mixprec.training._plain_weights import plain_weights
from mixprec.training._state import SessionState

VERSION_1 = Path(__file__).parent / "data" / "session-version-1.pt"


def state(**fields):
    fp16 = recipe("fp16")
    loss = {"kind": "dynamic", "scale": 8.0, "good_steps": 1, "overflows": 0, "skipped_in_row": 0}
    plain = {"name": "fp16", "recipe": fp16, "losses": {"loss": loss}, "random": torch.tensor([0, 1])}
    return SessionState(**{**plain, "applied": 3, "skipped": 1, "kept": {"w": {"master": torch.ones(2)}}, **fields})


def test_a_state_comes_back():
    before = state(averages={"ema": {"x": 1}}, schedules={"optimizer": {"last_epoch": 2}})
    after = SessionState.from_dict(before.to_dict())
    assert str(after) == str(before)
    assert before.to_dict()["schema"] == 2


def test_a_state_of_version_1_is_read():
    saved = torch.load(VERSION_1, weights_only=True)
    old = SessionState.from_dict(saved["session"])
    assert (old.name, old.recipe, old.applied, old.skipped) == ("mine", None, 3, 1)
    assert old.losses == {
        "loss": {"kind": "dynamic", "scale": 128.0, "good_steps": 2, "overflows": 0, "skipped_in_row": 0}
    }
    assert list(old.kept) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert torch.equal(old.kept["0.weight"]["master"].bfloat16(), saved["model"]["0.weight"])
    assert len(old.histories) == 6
    without = {name: value for name, value in saved["session"].items() if name != "histories"}
    assert SessionState.from_dict(without).histories == {}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"schema": 3}, "schema 3, and this version of mixprec reads up to 2: upgrade mixprec"),
        ({"schema": 2, "other": 1}, r"unknown keys \['other'\]"),
        ({"recipe": {"name": "x", "toml": "weights = 'x'"}}, "the recipe of the state cannot be read here: "),
    ],
)
def test_states_that_cannot_be_read_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        SessionState.from_dict({**state().to_dict(), **changed})


def test_what_is_no_state_is_refused():
    with pytest.raises(ValueError, match=r"missing keys \['applied'.*expected what Session\.state_dict\(\) gave"):
        SessionState.from_dict({"weight": torch.ones(2)})
    with pytest.raises(TypeError, match="got a list"):
        SessionState.from_dict([])


def test_another_state_is_refused_with_what_differs():
    loss = {"kind": "none", "scale": 1.0, "good_steps": 0}
    other = state(name="bf16", recipe=recipe("bf16"), losses={"loss": loss}, kept={})
    assert state().differences(other) == (
        "compute_dtype: fp16 -> bf16",
        "loss_scale.kind: dynamic -> none",
        "kept beside 16-bit weights (w): master [2] -> nothing",
    )
    with pytest.raises(ValueError, match=r"(?s)of recipe fp16, the session has bf16.*\n  compute_dtype.*convert=True"):
        state().refuse_misfit(other, convert=False)
    state().refuse_misfit(state(), convert=False)


def test_names_under_wrappers():
    model = nn.Sequential(nn.Linear(2, 1))
    wrapped = nn.DataParallel(model)
    assert [plain_name(name) for name in wrapped.state_dict()] == list(model.state_dict())
    compiled = {f"_orig_mod.{name}": value for name, value in model.state_dict().items()}
    assert list(renamed(compiled, wrapped.state_dict())) == ["module.0.weight", "module.0.bias"]
    assert renamed({"a": 1}, ["b"]) == {"a": 1}
    with pytest.raises(ValueError, match="are the same without"):
        renamed({"module.a": 1, "a": 2}, ["_orig_mod.a"])


def test_buffers_that_a_state_dict_leaves_out():
    def build():
        model = nn.Sequential(nn.Linear(2, 1))
        model[0].register_buffer("table", torch.zeros(2), persistent=False)
        model[0].register_buffer("grown", torch.zeros(2), persistent=False)
        model[0].register_buffer("none", None, persistent=False)
        model[0].register_buffer("kept", torch.zeros(2))
        return model

    model, other = build(), build()
    model[0].table.fill_(3)
    model[0].grown = torch.ones(5)
    saved = model_buffers(model)
    assert sorted(saved) == ["0.grown", "0.table"]
    table = other[0].table
    load_model_buffers(other, saved)
    assert other[0].table is table
    assert table.tolist() == [3, 3]
    assert other[0].grown.tolist() == [1] * 5
    load_model_buffers(other, {"gone": torch.ones(1)})


def test_values_of_another_model_are_refused():
    model = nn.Linear(2, 1)
    own = model.state_dict()
    sixteen = {**own, "weight": own["weight"].bfloat16()}
    for values, message in (
        ({"weight": own["weight"]}, "missing bias"),
        ({**own, "more": own["bias"]}, "unknown more"),
        ({**own, "weight": torch.ones(1, 3)}, r"weight has shape \[1, 3\], here \[1, 2\]"),
        (
            {**own, "weight": own["weight"].bfloat16()},
            r"weight is torch.bfloat16, here torch.float32; with convert=True",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            check_model_values(model, values, converts=False)
    check_model_values(model, sixteen, converts=True)
    with pytest.raises(ValueError, match=r"weight is torch.int32, here"):
        check_model_values(model, {**own, "weight": own["weight"].int()}, converts=True)


def test_full_values_are_exact():
    exact = torch.tensor([1 + 2.0**-20, -3.1415927, 1e-30, 65504.5])
    high = exact.bfloat16()
    bits = exact.view(torch.int32)
    remainder = (bits - ((bits + 0x8000) >> 16 << 16)).to(torch.int16)
    split = ((bits + 0x8000) >> 16).to(torch.int16).view(torch.bfloat16)
    low = (exact - high.float()).bfloat16()
    kept = {"a": {"master": exact}, "b": {"remainder": remainder}, "c": {"compensation": low}}
    full = full_weights({"a": high, "b": split, "c": high, "d": exact}, kept)
    assert torch.equal(full["a"], exact)
    assert torch.equal(full["b"], exact)
    assert torch.equal(full["c"], high.float() + low.float())
    assert full["d"] is exact
    assert torch.equal(full_weights({"b": split.float()}, {"b": kept["b"]})["b"], exact), "widened in between"
    for extras, message in (
        ({"x": {"other": exact}}, "beside x is saved other"),
        ({"y": {"master": exact}}, "y, of which"),
    ):
        with pytest.raises(ValueError, match=message):
            full_weights({"x": exact}, extras)


@pytest.mark.parametrize("nest", ["", "state_dict", "model", "model_state_dict"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("suffix", ["", ".pt", ".safetensors"])
def test_weights_from_elsewhere(tmp_path, nest, prefix, suffix):
    model = nn.Sequential(nn.Linear(2, 1), nn.BatchNorm1d(1))
    values = {prefix + name: value for name, value in model.state_dict().items()}
    content = {nest: values, "optimizer": {"state": {0: {"exp_avg": torch.ones(2)}}}} if nest else values
    source = content
    if suffix == ".safetensors":
        source = tmp_path / "weights.safetensors"
        save_file({name: value.contiguous() for name, value in values.items()}, source)
    elif suffix:
        source = tmp_path / "weights.pt"
        torch.save(content, source)
    found = plain_weights(source, model.state_dict())
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in found.items())


def test_weights_of_another_model_are_told():
    with pytest.raises(ValueError, match=r"no weights of this model: missing bias, weight \(2 of 2\); it has other"):
        plain_weights({"other": torch.ones(1)}, nn.Linear(2, 1).state_dict())


def test_a_tied_weight_needs_one_of_its_names():
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    for name in ("0.weight", "1.weight"):
        value = torch.ones(2, 2)
        assert plain_weights({f"module.{name}": value}, model.state_dict()) == {"0.weight": value, "1.weight": value}


def test_random_states_go_on():
    states = random_states()
    drawn = torch.rand(2).tolist(), random.random(), np.random.rand(2).tolist()
    assert load_random_states(states) == []
    assert (torch.rand(2).tolist(), random.random(), np.random.rand(2).tolist()) == drawn
    told = load_random_states({**states, "accelerator": {"cuda:7": torch.ones(1)}})
    assert told == ["the random state of cuda:7, which is not in use here"]
