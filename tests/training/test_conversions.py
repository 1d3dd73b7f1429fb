"""Checkpoints of another keeping and another optimizer of the same rule; and refusals, which change nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn

import mixprec.optim
from mixprec.specs import Moments, Recipe
from mixprec.training import prepare

from .test_checkpoints import BF16, SCALE, Loader, build, everything, flat, full_values, train

WAYS = {
    "fp32": (Recipe(name="mine", loss_scale=SCALE), torch.float32),
    "master": (BF16, torch.bfloat16),
    "fp16": (Recipe(name="mine", compute_dtype="fp16", loss_scale=SCALE), torch.float16),
    "split": (replace(BF16, weights="split"), torch.bfloat16),
    "kahan": (replace(BF16, weights="kahan"), torch.bfloat16),
    "stochastic": (replace(BF16, weights="stochastic"), torch.bfloat16),
    "true": (replace(BF16, weights="true"), torch.bfloat16),
}
EXACT = {"fp32", "master", "fp16", "split"}
OTHER = {"ours": "AdamW", "AdamW": "ours"}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run that was saved under every keeping and both optimizers."""
    runs = {}
    for way, optimizer in itertools.product(WAYS, OTHER):
        session, loader = build(WAYS[way][0], optimizer, WAYS[way][1])
        train(session, loader, 4)
        folder = tmp_path_factory.mktemp("saved")
        session.save(folder, extra={"loader": loader})
        runs[way, optimizer] = session, folder
    return runs


@pytest.mark.parametrize("optimizer", OTHER)
@pytest.mark.parametrize(("here", "there"), list(itertools.product(WAYS, WAYS)))
def test_every_pair_is_converted(saved, optimizer, here, there):
    saver, folder = saved[here, optimizer]
    other, position = build(WAYS[there][0], OTHER[optimizer], WAYS[there][1], seed=7)
    train(other, position, 3)
    other.resume(folder, extra={"loader": position}, convert=True)
    assert other.applied == saver.applied
    for full, wanted in zip(full_values(other), full_values(saver), strict=True):
        if there in EXACT:
            assert torch.equal(full, wanted)
        elif there == "kahan":
            torch.testing.assert_close(full, wanted, rtol=2.0**-16, atol=0)
        else:
            assert torch.equal(full, wanted.bfloat16().float())
    for mine, theirs in zip(other.optimizer.state.values(), saver.optimizer.state.values(), strict=True):
        for name in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(mine[name], theirs[name].to(mine[name].dtype)), name
        assert float(mine["step"]) == float(theirs["step"])
    told = [event.message for event in other.events if event.name == "converted"]
    assert not [text for text in told if text.endswith("-> nothing")] or there in ("fp32", "stochastic", "true")
    train(other, position, 6)
    assert all(value.isfinite().all() for value in full_values(other))


class Picky:
    def state_dict(self):
        return {"at": 1}

    def load_state_dict(self, state):
        raise ValueError("not mine")


def wider(which=BF16, dtype=torch.bfloat16):
    model = nn.Sequential(nn.Linear(8, 3)).to(dtype)
    return prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1), which), Loader()


def regrouped(kind):
    session, loader = build(BF16, kind, torch.bfloat16)
    made = {"AdamW": torch.optim.AdamW, "ours": mixprec.optim.AdamW}[kind]
    model = session.model
    session.restore()
    params = list(model.parameters())
    return prepare(model, made([{"params": params[:2]}, {"params": params[2:]}], lr=0.1), BF16), loader


def built(*case):
    return build(*case, seed=7)


REFUSALS = {
    "recipe": (("master", "AdamW"), lambda: built(WAYS["split"][0], "AdamW", torch.bfloat16), False, "what differs"),
    "dtype": (("fp32", "AdamW"), lambda: built(WAYS["fp32"][0], "AdamW", torch.bfloat16), False, "what differs|dtypes"),
    "rule": (("master", "AdamW"), lambda: built(BF16, "SGD", torch.bfloat16), True, "prepare with the same optimizer"),
    "class": (
        ("master", "ours"),
        lambda: built(BF16, "AdamW", torch.bfloat16),
        False,
        "convert=True takes its moments",
    ),
    "architecture": (("split", "AdamW"), lambda: wider(WAYS["split"][0]), False, "not this model's: missing 0.bias"),
    "groups": (("master", "AdamW"), lambda: regrouped("AdamW"), False, r"groups of \[6\] parameters, here \[2, 4\]"),
    "own groups": (("master", "ours"), lambda: regrouped("ours"), True, r"groups of \[6\] parameters, here \[2, 4\]"),
}


def digest(session):
    kept = [kept.full_weight(p) for kept in session._kept.values() for p in kept.parameters()]
    optimizers = [optimizer.state_dict() for optimizer in session.optimizers.values()]
    states = [session.model.state_dict(), optimizers, session.state_dict(), kept, torch.get_rng_state()]
    return flat(states)


@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused_changes_nothing(saved, case):
    key, make, convert, message = REFUSALS[case]
    session, loader = make()
    before = digest(session)
    with pytest.raises(ValueError, match=message):
        session.resume(saved[key][1], extra={"loader": loader}, convert=convert)
    assert digest(session) == before


def test_narrow_moments_are_refused_by_torchs_optimizer_before_anything_changes(tmp_path):
    narrow = replace(BF16, moments=Moments(kind="bf16", small=0))
    saver, loader = build(narrow, "ours", torch.bfloat16)
    train(saver, loader, 3)
    saver.save(tmp_path, extra={"loader": loader})
    other, position = build(BF16, "AdamW", torch.bfloat16, seed=7)
    before = everything(other)
    with pytest.raises(ValueError, match="which torch's optimizer cannot read"):
        other.resume(tmp_path, extra={"loader": position}, convert=True)
    assert everything(other) == before


def test_an_object_of_the_users_that_refuses_leaves_the_session(tmp_path):
    saver, loader = build()
    train(saver, loader, 3)
    saver.save(tmp_path, extra={"picky": Picky()})
    other, _ = build(seed=7)
    before = everything(other)
    with pytest.raises(ValueError, match="not mine"):
        other.resume(tmp_path, extra={"picky": Picky()})
    assert everything(other) == before


def test_a_run_folder_that_never_reached_the_step_is_refused_before_anything_changes(tmp_path):
    saver, loader = build()
    train(saver, loader, 6)
    saver.save(tmp_path / "saved", extra={"loader": loader})
    short, loader = build(run=tmp_path / "run")
    train(short, loader, 2)
    other, position = build(run=tmp_path / "run")
    before = everything(other)
    with pytest.raises(ValueError, match="they are not of one run"):
        other.resume(tmp_path / "saved", extra={"loader": position})
    assert everything(other) == before


def test_an_average_of_other_parameters_is_refused_before_anything_changes(tmp_path):
    def two(names):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).bfloat16()
        optimizers = {str(i): mixprec.optim.AdamW(model[i].parameters(), lr=0.1) for i in range(2)}
        session = prepare(model, optimizers, BF16)
        session.average(0.5, **names)
        return session

    saver = two({"optimizer": "0"})
    saver.save(tmp_path)
    other = two({})
    before = digest(other)
    with pytest.raises(ValueError, match="average 'average' of the state is of other parameters"):
        other.resume(tmp_path)
    assert digest(other) == before
