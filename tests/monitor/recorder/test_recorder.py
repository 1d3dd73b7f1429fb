"""What the flight recorder keeps, when it writes, and that what it wrote replays the step."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from mixprec.monitor import FlightRecorder, Monitoring, load_random_states, random_states
from mixprec.monitor.recorder import read_dump_state
from mixprec.records import StatisticsRecord, find_dumps, read_dump
from mixprec.training import prepare
from tests.monitor.recorder.driven import Driven


def test_a_dump_holds_the_last_steps_and_no_more(tmp_path):
    run = Driven(tmp_path, steps=3, recipe="bf16", seed=7)
    for _ in range(5):
        run.step()
    dump = read_dump(run.recorder.dump("a look"))
    assert [step.step for step in dump.steps] == [2, 3, 4]
    assert {step.outcome for step in dump.steps} == {"applied"}
    assert (dump.reason, dump.detail, dump.recipe, dump.seed, dump.step) == ("request", "a look", "bf16", 7, 4)
    assert dump.versions["torch"] == torch.__version__


def test_numbers_are_those_of_the_step(tmp_path):
    run = Driven(tmp_path)
    run.step()
    torch.manual_seed(3)
    expected = run.forward(torch.ones(2, 4))
    expected.backward()
    norms = {name: float(p.grad.norm()) for name, p in run.model.named_parameters()}
    run.model.zero_grad()
    run.recorder.dropped()
    torch.manual_seed(3)
    run.step()
    step = read_dump(run.recorder.dump()).steps[-1]
    assert step.losses == {"loss": expected.item()}
    assert step.norms == norms
    assert step.grad_norm == pytest.approx(math.hypot(*norms.values()))
    assert step.loss_scales == {"loss": 1.0}


def test_the_step_is_replayed_bit_for_bit_from_the_dump(tmp_path):
    run = Driven(tmp_path)
    run.step()
    x = torch.randn(8, 4)
    loss = run.forward(x)  # dropout draws
    path = run.recorder.dump()
    torch.rand(100), np.random.rand(3)
    before = random_states()
    state = read_dump_state(path)
    (call,) = state.calls
    assert torch.equal(call["args"][0], x)
    assert load_random_states(state.random[1]) == []
    assert torch.equal(run.model(*call["args"], **call["kwargs"]).square().mean(), loss)
    load_random_states(before)


def test_random_states_of_python_and_numpy_come_back(tmp_path):
    run = Driven(tmp_path)
    before = random_states()
    run.forward(torch.ones(1, 4))
    state = read_dump_state(run.recorder.dump()).random[0]
    assert state["python"] == before["python"]
    for got, expected in zip(state["numpy"], before["numpy"], strict=True):
        assert np.array_equal(got, expected)


def test_a_batch_is_known_by_its_name_and_its_content(tmp_path):
    run = Driven(tmp_path)
    for x in (torch.ones(2, 4), torch.ones(2, 4), torch.zeros(2, 4)):
        run.recorder.batch("shard 1")
        run.step(x)
    run.step()
    batches = [step.batches[0] for step in read_dump(run.recorder.dump()).steps]
    assert [batch["name"] for batch in batches] == ["shard 1", "shard 1", "shard 1", ""]
    assert batches[0] == batches[1]
    assert batches[0]["hash"] == batches[3]["hash"]
    assert batches[0]["hash"] != batches[2]["hash"]
    assert batches[0]["tensors"] == ({"place": "args[0]", "shape": (2, 4), "dtype": "float32", "device": "cpu"},)


def test_every_micro_batch_is_seen_and_no_recomputation(tmp_path):
    run = Driven(tmp_path)
    for i in range(3):
        run.backward(run.forward(torch.full((1, 4), float(i))))
    x = torch.ones(1, 4, requires_grad=True)
    run.backward(checkpoint(run.model, x, use_reentrant=False).sum())
    (step,) = read_dump(run.recorder.dump()).steps
    assert len(step.batches) == 4
    assert list(step.losses) == ["loss", "loss#2", "loss#3", "loss#4"]


def test_evaluations_are_not_seen(tmp_path):
    run = Driven(tmp_path)
    with torch.no_grad():
        run.model(torch.ones(1, 4))
    run.model.eval()
    run.model(torch.ones(1, 4))
    assert read_dump(run.recorder.dump()).steps == ()


@pytest.mark.parametrize(
    ("batch_bytes", "fill", "says"),
    [(16, None, "it holds 32 bytes, more than 16"), (64, 5.0, "a tensor of it was written to since")],
)
def test_a_batch_that_cannot_be_written_is_told(tmp_path, batch_bytes, fill, says):
    run = Driven(tmp_path, batch_bytes=batch_bytes)
    x = torch.ones(2, 4)
    run.forward(x)
    if fill is not None:
        x.fill_(fill)
    path = run.recorder.dump()
    assert says in read_dump(path).batch
    assert read_dump_state(path).calls == ()


def test_arguments_of_other_kinds_are_told(tmp_path):
    class Wrapped(nn.Module):
        def forward(self, holder, *, flag):
            return holder.x.sum()

    class Holder:
        x = torch.ones(1)

    model = Wrapped()
    recorder = FlightRecorder(model, tmp_path, watch_process=False)
    model(Holder(), flag=True)
    dump = read_dump(recorder.dump())
    assert "Holder, which a dump cannot hold" in dump.batch
    assert dump.steps[0].batches[0]["tensors"] == ()


def test_a_non_finite_loss_is_dumped_once_for_each_streak(tmp_path):
    run = Driven(tmp_path)
    run.step()
    (finding,) = run.step(factor=math.nan, is_finite=False)
    assert (finding.name, finding.severity) == ("recorder dump", "note")
    assert run.step(factor=math.nan, is_finite=False) == ()
    assert run.step() == ()
    (again,) = run.step(factor=math.inf, is_finite=False)
    dumps = [read_dump(path) for path in find_dumps(tmp_path)]
    assert [(dump.reason, dump.step) for dump in dumps] == [("non-finite", 1), ("non-finite", 2)]
    assert not any(dump.is_ordinary for dump in dumps)
    assert math.isnan(dumps[0].steps[-1].losses["loss"])
    assert dumps[1].steps[-1].losses["loss"] == math.inf
    assert str(find_dumps(tmp_path)[1]) == again.evidence["path"]


def test_a_loss_scale_that_finds_its_level_is_ordinary_until_it_lasts(tmp_path):
    run = Driven(tmp_path)
    assert [run.step(scale=2.0**16, is_finite=False) for _ in range(7)] == [()] * 7
    (dump,) = (read_dump(path) for path in find_dumps(tmp_path))
    assert dump.is_ordinary
    (finding,) = run.step(scale=2.0**9, is_finite=False)
    assert finding.name == "recorder dump"
    assert [read_dump(path).is_ordinary for path in find_dumps(tmp_path)] == [True, False]


def test_a_non_finite_loss_in_an_ordinary_streak_is_dumped(tmp_path):
    run = Driven(tmp_path)
    run.step(scale=2.0, is_finite=False)
    run.step(scale=2.0, factor=math.nan, is_finite=False)
    assert [read_dump(path).is_ordinary for path in find_dumps(tmp_path)] == [True, False]


def test_dumps_are_bounded_and_the_first_fault_stays(tmp_path):
    run = Driven(tmp_path, dumps=3)
    run.step(scale=2.0, is_finite=False)  # ordinary: the first to go
    run.step()
    run.step(factor=math.nan, is_finite=False)
    for _ in range(2):
        run.step()
        run.recorder.dump()
        run.step(factor=math.inf, is_finite=False)
    numbers = [int(path.name.split("-")[1]) for path in find_dumps(tmp_path)]
    assert numbers == [2, 4, 6]  # of 1 ordinary, 2 fault, 3 request, 4 fault, 5 request, 6 fault


def test_an_exception_is_dumped_once_and_says_where(tmp_path):
    run = Driven(tmp_path)
    run.step()
    run.forward(torch.ones(1, 4))
    try:
        raise RuntimeError("a bad file")
    except RuntimeError as error:
        run.recorder.failed(error)
        run.recorder.failed(error)
        caught = error
    try:
        raise ValueError("wrapped") from caught
    except ValueError as outer:
        run.recorder.crashed(outer)
    (path,) = find_dumps(tmp_path)
    assert caught.__notes__ == [f"mixprec: the last steps are in {path}: `mixprec doctor {tmp_path}` reads them"]
    dump = read_dump(path)
    assert dump.reason == "exception"
    assert 'raise RuntimeError("a bad file")' in dump.detail
    assert [step.outcome for step in dump.steps] == ["applied", "failed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_a_stop_is_no_crash(tmp_path, error):
    run = Driven(tmp_path)
    run.recorder.failed(error)
    assert find_dumps(tmp_path) == []


def test_a_dump_that_cannot_be_written_disturbs_nobody_but_who_asked(tmp_path, capsys):
    run = Driven(tmp_path)
    (tmp_path / "recorder").write_text("a file where the folder should be")
    (finding,) = run.step(factor=math.nan, is_finite=False)
    assert finding.severity == "warning"
    assert "could not be written" in finding.message
    assert "could not be written" in capsys.readouterr().err
    with pytest.raises(OSError, match="recorder"):
        run.recorder.dump()


def test_statistics_go_with_their_step(tmp_path):
    run = Driven(tmp_path)
    run.step()
    record = StatisticsRecord(
        recipe="a",
        seed=0,
        step=0,
        site="0",
        role="input",
        cast="mxfp8",
        in_use=True,
        elements=8,
        zeros=0.0,
        nonfinite=0,
        amax=1.0,
        flushed=0.25,
        subnormal=0.0,
        saturated=0.0,
        sqnr_db=math.inf,
        relative_error=0.0,
        bias=0.0,
        exponents={},
    )
    run.recorder.note_statistics([record])
    run.step()
    first, second = read_dump(run.recorder.dump()).steps
    assert [(row["site"], row["flushed"], row["sqnr_db"]) for row in first.statistics] == [("0", 0.25, math.inf)]
    assert second.statistics == ()


def test_a_dropped_window_is_kept_as_such(tmp_path):
    run = Driven(tmp_path)
    run.backward(run.forward(torch.ones(1, 4)))
    run.recorder.dropped()
    run.step()
    assert [step.outcome for step in read_dump(run.recorder.dump()).steps] == ["dropped", "applied"]


def test_copies_of_the_model_tell_nobody(tmp_path):
    run = Driven(tmp_path)
    for other in (copy.deepcopy(run.model), pickle.loads(pickle.dumps(run.model))):
        other(torch.ones(1, 4))
    assert read_dump(run.recorder.dump()).steps == ()


def test_a_list_of_models_is_seen_through_its_parts(tmp_path):
    models = nn.ModuleDict({"g": nn.Linear(2, 2), "d": nn.ModuleList([nn.Linear(2, 1)])})
    recorder = FlightRecorder(models, tmp_path, watch_process=False)
    models["d"][0](models["g"](torch.ones(1, 2)))
    assert len(read_dump(recorder.dump()).steps[0].batches) == 2


def test_what_is_not_watched_is_told_once(tmp_path):
    made = []
    thread = threading.Thread(target=lambda: made.append(Driven(tmp_path, watch_process=True)))
    thread.start()
    thread.join()
    (run,) = made
    (finding,) = run.step()
    assert (finding.name, finding.message) == ("recorder", "signals are not watched: only the main thread can")
    assert run.step() == ()
    run.recorder.close()


def test_closing_leaves_the_model_as_it_was(tmp_path):
    run = Driven(tmp_path)
    run.recorder.close()
    run.recorder.close()
    assert not run.model._forward_pre_hooks
    assert not run.model._forward_pre_hooks_with_kwargs


def test_the_recorder_keeps_neither_graph_nor_model_alive(tmp_path):
    run = Driven(tmp_path)
    made_of = torch.ones(1, 4, requires_grad=True)
    saved, model = weakref.ref(made_of), weakref.ref(run.model)
    run.step(made_of * made_of)  # an argument with a graph of its own, which saves what it is made of
    del made_of
    gc.collect()
    assert saved() is None
    recorder, run = run.recorder, None
    gc.collect()
    assert model() is None
    recorder.close()


def test_memory_is_bounded(tmp_path):
    run = Driven(tmp_path, steps=4)
    for _ in range(3):
        for _ in range(200):
            run.backward(run.forward(torch.ones(1, 4)))
        run.step()
    assert all(len(step.batches) == 64 for step in read_dump(run.recorder.dump()).steps)


@pytest.mark.parametrize("options", [{"steps": 0}, {"dumps": 0}, {"batch_bytes": -1}, {"steps": True}])
def test_numbers_out_of_range_are_refused(tmp_path, options):
    (name,) = options
    with pytest.raises(ValueError, match=f"FlightRecorder: {name} is"):
        FlightRecorder(nn.Linear(1, 1), tmp_path, **options)


@pytest.mark.parametrize("layout", ["transposed", "expanded", "empty", "sparse", "scalar", "bool"])
def test_every_kind_of_tensor_is_looked_at(tmp_path, layout):
    class Reads(nn.Module):
        def forward(self, x):
            return torch.ones(1, requires_grad=True)

    tensors = {
        "transposed": torch.arange(12.0).reshape(3, 4).T,
        "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 500),
        "empty": torch.empty(0, 3),
        "sparse": torch.eye(3).to_sparse(),
        "scalar": torch.tensor(2.0),
        "bool": torch.tensor([True, False]),
    }
    model = Reads()
    recorder = FlightRecorder(model, tmp_path, watch_process=False)
    model(tensors[layout])
    batch = read_dump(recorder.dump()).steps[0].batches[0]
    assert batch["tensors"][0]["shape"] == tuple(tensors[layout].shape)


@pytest.mark.parametrize("locate", [True, False])
def test_random_states_of_a_pass_are_taken_once(tmp_path, monkeypatch, locate):
    """Of the locator, where there is one: the recorder's own are taken only without it, and are the same."""
    calls, states = [], []

    def counted():
        calls.append(1)
        return random_states()

    monkeypatch.setattr("mixprec.monitor.recorder._recorder.random_states", counted)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    session = prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32", run=tmp_path, monitor=Monitoring(locate=locate)
    )
    for _ in range(3):
        states.append(torch.get_rng_state())
        for _ in range(2):
            session.backward(model(torch.ones(2, 4)).square().mean())
        session.step()
    assert len(calls) == (0 if locate else 3)
    (recorder,) = (w for w in session._watching._watches._watches if isinstance(w, FlightRecorder))
    found = read_dump_state(recorder.dump()).random
    assert all(torch.equal(found[i]["torch"], states[i]) for i in range(3))
