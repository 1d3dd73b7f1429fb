"""A session's checkpoints: a resumed run is the run that was never stopped; another recipe's is converted."""

from __future__ import annotations

import io
import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch import nn

import mixprec.optim
from mixprec.monitor import load_random_states, random_states
from mixprec.specs import LayerPrecision, LossScale, Moments, Recipe, Rule, recipe
from mixprec.training import CheckpointDamaged, prepare
from tests.training.data.write_version_1 import build as build_version_1
from tests.training.data.write_version_1 import run as run_version_1

VERSION_1 = Path(__file__).parent / "data" / "session-version-1.pt"
SCALE = LossScale(kind="dynamic", initial=2.0**8, interval=3)
BF16 = Recipe(name="mine", compute_dtype="bf16", loss_scale=SCALE)
STOCHASTIC_CASTS = LayerPrecision.of(
    input="e4m3[tensor] delayed(16)", weight="mxfp8", grad_output="e2m1[1x16:e4m3*fp32] sr"
)
BAD = 2


class Net(nn.Module):
    """Dropout, running statistics, and a buffer that the state_dict leaves out and each pass changes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.3), nn.Linear(16, 4))
        self.register_buffer("passes", torch.zeros(1), persistent=False)

    def forward(self, x):
        self.passes += 1
        return self.layers(x * (1 + 0.01 * self.passes).to(x.dtype))


class Loader:
    def __init__(self):
        self.position, self.generator = 0, torch.Generator().manual_seed(1)

    def next(self):
        self.position += 1
        return torch.randn(8, 8, generator=self.generator)

    def state_dict(self):
        return {"position": self.position, "generator": self.generator.get_state()}

    def load_state_dict(self, state):
        self.position = state["position"]
        self.generator.set_state(state["generator"])


def build(which=BF16, optimizer="AdamW", dtype=torch.float32, seed=0, **options):
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    model = Net().to(dtype)
    kinds = {
        "AdamW": torch.optim.AdamW,
        "ours": mixprec.optim.AdamW,
        "SGD": torch.optim.SGD,
        "oursSGD": mixprec.optim.SGD,
    }
    more = {"momentum": 0.9} if "SGD" in optimizer else {}
    made = kinds[optimizer](model.parameters(), lr=0.02, **more)
    schedule = torch.optim.lr_scheduler.MultiStepLR(made, [2, 4], gamma=0.5)
    session = prepare(model, made, which, clip_norm=1.0, schedule=schedule, **options)
    session.average(0.5)
    return session, Loader()


def train(session, loader, until, micro=1):
    while loader.position < until:
        for _ in range(micro):
            x = loader.next() + random.random() + np.random.rand()
            loss = session.model(x).float().square().mean()
            session.backward(loss * float("inf") if loader.position == BAD else loss)
        session.step()


def everything(session):
    """All that can be told of a run, bit for bit."""
    states = {
        "model": session.model.state_dict(),
        "optimizer": session.optimizer.state_dict(),
        "session": session.state_dict(),
        "full": [kept.full_weight(p) for kept in session._kept.values() for p in kept.parameters()],
        "passes": session.model.passes,
        "random": [torch.get_rng_state(), random.getstate(), np.random.get_state()],
    }
    return flat(states)


def flat(value):
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, dict):
        return sorted(((str(key), flat(item)) for key, item in value.items()), key=lambda pair: pair[0])
    if isinstance(value, list | tuple):
        return [flat(item) for item in value]
    return value


def with_rule(**fields):
    return replace(BF16, rules=(Rule(precision=STOCHASTIC_CASTS),), **fields)


CASES = {
    "fp32": (Recipe(name="mine", loss_scale=SCALE), "AdamW", torch.float32),
    "fp16": (replace(recipe("fp16"), loss_scale=SCALE), "SGD", torch.float32),
    "casts": (with_rule(compute_dtype="fp32"), "AdamW", torch.float32),
    "master": (with_rule(), "AdamW", torch.bfloat16),
    "split": (replace(BF16, weights="split"), "AdamW", torch.bfloat16),
    "kahan": (replace(BF16, weights="kahan"), "SGD", torch.bfloat16),
    "stochastic": (with_rule(weights="stochastic"), "AdamW", torch.bfloat16),
    "true": (replace(BF16, weights="true"), "SGD", torch.bfloat16),
    "ours e4m3": (with_rule(weights="split", moments=Moments(kind="e4m3", small=0)), "ours", torch.bfloat16),
    "ours dynamic": (replace(BF16, moments=Moments(kind="dynamic", small=0)), "ours", torch.bfloat16),
    "narrowed": (replace(BF16, weights="split"), "ours", torch.float32),
    "narrowed SGD": (replace(BF16, weights="kahan"), "SGD", torch.float32),
    "ours bf16": (replace(BF16, weights="stochastic", moments=Moments(kind="bf16")), "oursSGD", torch.bfloat16),
}


@pytest.mark.parametrize(("used", "micro"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_is_the_run_that_was_never_stopped(tmp_path, case, used, micro):
    which, optimizer, dtype = CASES[case]
    whole, loader = build(which, optimizer, dtype)
    train(whole, loader, 4, micro)
    path = whole.save(tmp_path, extra={"loader": loader})
    at_save = everything(whole)
    train(whole, loader, 8, micro)
    again, other = build(which, optimizer, dtype, seed=7)
    if used:
        train(again, other, 6, micro)
    resumed = again.resume(tmp_path, extra={"loader": other})
    assert (resumed.path, resumed.step, resumed.passed_over, resumed.differences) == (path, again.applied, (), ())
    assert everything(again) == at_save
    train(again, other, 8, micro)
    assert everything(again) == everything(whole)
    names = {event.name for event in again.events}
    assert not names & {"converted", "master follows", "not restored", "data position", "versions"}


WAYS = {
    "fp32": (Recipe(name="mine", loss_scale=SCALE), torch.float32),
    "master": (BF16, torch.bfloat16),
    "split": (replace(BF16, weights="split"), torch.bfloat16),
    "kahan": (replace(BF16, weights="kahan"), torch.bfloat16),
    "stochastic": (replace(BF16, weights="stochastic"), torch.bfloat16),
}
EXACT = {"fp32", "master", "split"}


def full_values(session):
    return [kept.full_weight(p) for kept in session._kept.values() for p in kept.parameters()]


@pytest.mark.parametrize("optimizer", ["AdamW", "ours"])
@pytest.mark.parametrize("there", WAYS)
@pytest.mark.parametrize("here", WAYS)
def test_weights_kept_otherwise_are_converted(tmp_path, here, there, optimizer):
    if here == there:
        return
    saver, loader = build(WAYS[here][0], optimizer, WAYS[here][1])
    train(saver, loader, 4)
    saver.save(tmp_path, extra={"loader": loader})
    other, position = build(WAYS[there][0], optimizer, WAYS[there][1], seed=7)
    before = everything(other)
    with pytest.raises(ValueError, match=r"what differs \(saved -> here\)|convert=True"):
        other.resume(tmp_path, extra={"loader": position})
    assert everything(other) == before, "a refused checkpoint changes nothing"
    resumed = other.resume(tmp_path, extra={"loader": position}, convert=True)
    assert resumed.step == other.applied == saver.applied
    assert any(line.startswith(("weights: ", "kept beside")) for line in resumed.converted)
    assert [event for event in other.events if event.name == "converted"]
    for full, wanted in zip(full_values(other), full_values(saver), strict=True):
        if there in EXACT:
            assert torch.equal(full, wanted)
        elif there == "kahan":
            torch.testing.assert_close(full, wanted, rtol=2.0**-16, atol=0)
        else:
            assert torch.equal(full, wanted.bfloat16().float())
    for (_, mine), (_, theirs) in zip(other.optimizer.state.items(), saver.optimizer.state.items(), strict=True):
        assert torch.equal(mine["exp_avg"], theirs["exp_avg"])
        assert float(mine["step"]) == float(theirs["step"])
    assert other.loss_scale_state == saver.loss_scale_state
    train(other, position, 8)
    assert all(torch.isfinite(value).all() for value in full_values(other))


def test_moments_and_scales_kept_otherwise_are_converted(tmp_path):
    saver, loader = build(replace(BF16, moments=Moments(kind="fp32")), "ours", torch.bfloat16)
    train(saver, loader, 4)
    saver.save(tmp_path, extra={"loader": loader})
    narrow = replace(BF16, moments=Moments(kind="e4m3", small=0), loss_scale=LossScale(kind="none"))
    other, position = build(narrow, "ours", torch.bfloat16, seed=7)
    with pytest.raises(ValueError, match=r"(?s)loss_scale.kind: dynamic -> none\n.*moments.kind: fp32 -> e4m3"):
        other.resume(tmp_path, extra={"loader": position})
    other.resume(tmp_path, extra={"loader": position}, convert=True)
    assert other.loss_scale == 1.0
    (state, *_), (saved, *_) = list(other.optimizer.state.values()), list(saver.optimizer.state.values())
    assert state["exp_avg_codes"].dtype == torch.uint8
    other.save(tmp_path / "narrow", extra={"loader": position})
    back, position = build(replace(BF16, moments=Moments(kind="fp32")), "ours", torch.bfloat16, seed=8)
    back.resume(tmp_path / "narrow", extra={"loader": position}, convert=True)
    (state, *_) = list(back.optimizer.state.values())
    largest = saved["exp_avg"].abs().max()
    torch.testing.assert_close(state["exp_avg"], saved["exp_avg"], rtol=0.07, atol=float(largest) * 2.0**-6)


def test_other_casts_keep_the_histories_of_operands_that_are_scaled_alike(tmp_path):
    saver, loader = build(with_rule(), "AdamW", torch.float32)
    train(saver, loader, 4)
    saver.save(tmp_path, extra={"loader": loader})
    casts = replace(STOCHASTIC_CASTS, dgrad_grad_output=None, wgrad_grad_output=None)
    fewer = replace(BF16, rules=(Rule(precision=casts),))
    other, position = build(fewer, "AdamW", torch.float32, seed=7)
    other.resume(tmp_path, extra={"loader": position}, convert=True)
    saved, loaded = saver.state_dict()["histories"], other.state_dict()["histories"]
    assert loaded
    assert all(torch.equal(history, saved[name]) for name, history in loaded.items())
    told = [event.message for event in other.events if event.name == "converted"]
    assert "rules[0].precision.dgrad_grad_output: nvfp4 sr -> compute dtype" in told


def test_a_state_of_version_1_continues():
    saved = torch.load(VERSION_1, weights_only=True)
    session = build_version_1()
    session.model.load_state_dict(saved["model"])
    session.optimizer.load_state_dict(saved["optimizer"])
    session.load_state_dict(saved["session"])
    assert (session.applied, session.skipped, session.loss_scale) == (3, 1, 128)
    assert session.loss_scale_state.good_steps == 2
    state = session.state_dict()
    for name, master in saved["session"]["masters"].items():
        assert torch.equal(state["kept"][name]["master"], master)
    for name, history in saved["session"]["histories"].items():
        assert torch.equal(state["histories"][name], history)
    assert torch.equal(state["random"], saved["session"]["random"])
    run_version_1(session, range(4, 6))
    for name, master in saved["masters after two more"].items():
        torch.testing.assert_close(session.state_dict()["kept"][name]["master"], master, rtol=1e-5, atol=1e-7)


def parts(session):
    return {"model": session.model, "optimizer": session.optimizer, "session": session}


@pytest.mark.parametrize("case", ["master", "ours e4m3"])
def test_torch_save_and_load(case):
    whole, loader = build(*CASES[case])
    train(whole, loader, 4)
    file = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in parts(whole).items()}, file)
    file.seek(0)
    other, _ = build(*CASES[case], seed=7)
    saved = torch.load(file, weights_only=True)
    for name, part in parts(other).items():
        part.load_state_dict(saved[name])
    for one, two in zip(full_values(whole), full_values(other), strict=True):
        assert torch.equal(one, two)
    assert flat(other.state_dict()) == flat(whole.state_dict())


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("case", ["master", "split", "ours e4m3"])
def test_distributed_checkpoint(tmp_path, case):
    whole, loader = build(*CASES[case])
    train(whole, loader, 4)
    dcp.save(parts(whole), checkpoint_id=tmp_path / "dcp", no_dist=True)
    metadata = dcp.FileSystemReader(tmp_path / "dcp").read_metadata().state_dict_metadata
    beside = {"master": "master", "split": "remainder", "ours e4m3": "remainder"}[case]
    assert f"session.kept.layers.0.weight.{beside}" in metadata, "by name"
    other, position = build(*CASES[case], seed=7)
    train(other, position, 3)  # an optimizer without a state has no place that a tensor could be read into
    dcp.load(parts(other), checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert flat(other.optimizer.state_dict()) == flat(whole.optimizer.state_dict())
    assert flat(other.state_dict()) == flat(whole.state_dict())
    for one, two in zip(full_values(whole), full_values(other), strict=True):
        assert torch.equal(one, two)
    train(whole, loader, 8)
    position.load_state_dict(loader.state_dict())
    assert other.schedules["optimizer"].milestones == whole.schedules["optimizer"].milestones, "keys are numbers still"


@pytest.mark.parametrize("way", WAYS)
def test_plain_weights_are_taken_on_request(tmp_path, way):
    source = {f"module.{name}": value for name, value in Net().state_dict().items()}
    save_file(source, tmp_path / "w.safetensors")
    torch.save({"state_dict": source, "epoch": 3}, tmp_path / "w.pt")
    for file in (tmp_path / "w.safetensors", tmp_path / "w.pt", {"model": source}):
        session, loader = build(*[WAYS[way][0], "ours", WAYS[way][1]])
        train(session, loader, 3)
        applied = session.applied
        if isinstance(file, Path):
            with pytest.raises(ValueError, match="is a file of weights, not a checkpoint's folder"):
                session.resume(file)
            resumed = session.resume(file, convert=True)
            assert resumed.restored == ("model",)
        else:
            session.load_state_dict(file, convert=True)
        assert session.applied == applied
        for (name, _), full in zip(session.model.named_parameters(), full_values(session), strict=True):
            wanted = source[f"module.{name}"]
            if way in EXACT:
                assert torch.equal(full, wanted), name
            else:
                torch.testing.assert_close(full, wanted, rtol=2.0**-8, atol=0)
        train(session, loader, 5)


def test_gradients_are_not_saved_and_are_refused(tmp_path):
    session, loader = build()
    session.backward(session.model(loader.next()).square().mean())
    with pytest.raises(ValueError, match=r"save: there are gradients \(layers.0.weight, .*save after session.step\(\)"):
        session.save(tmp_path)
    session.step()
    session.save(tmp_path)
    session.step(session.model(loader.next()).square().mean(), zero_grad=False)
    with pytest.raises(ValueError, match=r"session.zero_grad\(\) to drop them"):
        session.save(tmp_path)
    session.zero_grad()
    session.save(tmp_path)


def test_a_run_folder_has_its_checkpoints(tmp_path):
    run = tmp_path / "run"

    def start(seed):
        session, loader = build(seed=seed, run=run)
        resumed = session.resume(extra={"loader": loader})
        return session, loader, resumed

    session, loader, resumed = start(0)
    assert str(resumed) == "nothing to resume: the run begins at step 0"
    train(session, loader, 2)
    session, loader, resumed = start(0)  # killed before anything was saved
    assert resumed.path is None
    train(session, loader, 4)
    assert session.save(extra={"loader": loader}) == run / "checkpoints" / "step-00000003"
    train(session, loader, 6)
    session, loader, resumed = start(5)
    assert (resumed.step, session.applied, loader.position) == (3, 3, 4)
    assert "resumed from step 3" in str(resumed)
    assert "loader" in resumed.restored
    names = [json.loads(line).get("name") for line in (run / "records.jsonl").read_text().splitlines()]
    assert names.count("resumed") == 2
    assert names.count("nothing to resume") == 2
    train(session, loader, 6)


def test_what_is_told(tmp_path):
    session, loader = build()
    train(session, loader, 3)
    first = session.save(tmp_path)
    session.save(tmp_path)
    (told,) = [event for event in session.events if event.name == "data position"]
    assert "save(extra={'data': loader})" in told.message
    newest = session.save(tmp_path)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        (newest / "model.safetensors").write_bytes(b"")
        other, _ = build(seed=7)
        resumed = other.resume(tmp_path)
    finally:
        torch.set_num_threads(threads)
    assert resumed.differences == (f"threads {threads} -> {threads + 1}",)
    assert "model.safetensors is cut off: got 0 bytes" in resumed.passed_over[0]
    messages = {event.name: event.message for event in other.events}
    assert messages["versions"].endswith(f"threads {threads} -> {threads + 1}")
    assert messages["checkpoint damaged"].startswith(f"passed over: {newest} is damaged")
    assert not first.exists()
    (resumed.path / "state.json").unlink()
    with pytest.raises(
        CheckpointDamaged, match=r"no checkpoint in .* is whole: (?=.*model.safetensors)(?=.*state.json)"
    ):
        other.resume(tmp_path)


def test_refusals(tmp_path):
    session, loader = build()
    train(session, loader, 3)
    session.save(tmp_path, extra={"loader": loader})
    for call, error, message in (
        (lambda: session.save(), ValueError, r"save: no folder: give save\('checkpoints'\), or prepare"),
        (lambda: session.resume(), ValueError, "resume: no folder"),
        (lambda: session.resume(tmp_path / "x"), FileNotFoundError, "x holds no checkpoint"),
        (lambda: session.resume(tmp_path), ValueError, r"extra loader, the session none: give resume\(extra="),
        (
            lambda: session.save(tmp_path, extra={"x": 3}),
            TypeError,
            "extra 'x' is a int, expected an object with state",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
    wider = nn.Sequential(nn.Linear(8, 3))
    other = prepare(wider, torch.optim.AdamW(wider.parameters(), lr=0.1), BF16)
    with pytest.raises(ValueError, match=r"the weights are not this model's: missing 0.bias, 0.weight; unknown layers"):
        other.resume(tmp_path, extra={"loader": loader})


def test_averages_and_schedules_that_are_on_one_side_only_are_told(tmp_path):
    session, loader = build()
    train(session, loader, 4)
    session.average(0.9, name="more")
    session.save(tmp_path, extra={"loader": loader})
    other, position = build(seed=7)
    own = other.average(0.25, name="own")
    resumed = other.resume(tmp_path, extra={"loader": position})
    told = [event.message for event in other.events if event.name == "not restored"]
    assert [line for line in str(resumed).splitlines() if line.startswith("not restored: ")] == [
        f"not restored: {text}" for text in told
    ]
    assert told == [
        "average 'more' of the state has no counterpart here",
        "average 'own' is not in the state: it begins from the weights that are loaded",
    ]
    state = own.state_dict()
    assert (state["decay"], state["updates"]) == (0.25, 0)
    for name, p in other.model.named_parameters():
        assert torch.equal(state["averages"][name], p)


@pytest.mark.parametrize(("one", "two"), [("AdamW", "ours"), ("ours", "AdamW"), ("SGD", "oursSGD"), ("oursSGD", "SGD")])
def test_optimizers_of_one_rule_take_over_each_others_moments(tmp_path, one, two):
    saver, loader = build(BF16, one, torch.bfloat16)
    train(saver, loader, 4)
    saver.save(tmp_path, extra={"loader": loader})
    other, position = build(BF16, two, torch.bfloat16, seed=7)
    with pytest.raises(
        ValueError, match=r"optimizer 'optimizer' of the checkpoint is .*: convert=True takes its moments"
    ):
        other.resume(tmp_path, extra={"loader": position})
    other.resume(tmp_path, extra={"loader": position}, convert=True)
    moment = "momentum_buffer" if "SGD" in one else "exp_avg"
    for mine, theirs in zip(other.optimizer.state.values(), saver.optimizer.state.values(), strict=True):
        assert torch.equal(mine[moment], theirs[moment])
    for mine, theirs in zip(full_values(other), full_values(saver), strict=True):
        assert torch.equal(mine, theirs)
    states = random_states()
    train(saver, loader, 7)
    load_random_states(states)
    train(other, position, 7)
    for mine, theirs in zip(full_values(other), full_values(saver), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-4)


def test_optimizers_of_another_rule_are_refused(tmp_path):
    saver, loader = build(replace(BF16, moments=Moments(kind="dynamic", small=0)), "ours", torch.bfloat16)
    train(saver, loader, 3)
    saver.save(tmp_path, extra={"loader": loader})
    other, position = build(BF16, "SGD", torch.bfloat16)
    with pytest.raises(
        ValueError, match=r"is mixprec.optim.AdamW, here it is SGD: prepare with the same optimizer, or"
    ):
        other.resume(tmp_path, extra={"loader": position}, convert=True)
    torchs, position = build(BF16, "AdamW", torch.bfloat16)
    with pytest.raises(ValueError, match=r"exp_avg_codes is kept as torch.uint8 by mixprec.optim, which torch's"):
        torchs.resume(tmp_path, extra={"loader": position}, convert=True)
