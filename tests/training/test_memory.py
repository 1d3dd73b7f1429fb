"""What a session says that it holds, against counts of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import mixprec
import mixprec.optim
from mixprec.monitor import storages_in
from mixprec.specs import Recipe
from mixprec.training import Memory, Session, _memory_count, _memory_meter
from tests.monitor.live_bytes import run_and_count

ROWS, WIDTH = 32, 64


class Block(nn.Module):
    """Two layers and a product of its own between them."""

    def __init__(self, recompute: bool | None = None) -> None:
        super().__init__()
        self.first, self.act, self.last = nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 8)
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.first(x))
        if self.recompute is None:
            return self.last(self.act(h))
        return checkpoint(lambda h: self.last(self.act(h)), h, use_reentrant=self.recompute, preserve_rng_state=False)


def prepared(model: nn.Module, recipe: str = "fp32", **options: Any) -> Session:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return mixprec.prepare(model, optimizer, recipe, **options)


def batch(seed: int = 0, rows: int = ROWS) -> Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def loss_of(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def test_what_was_not_measured_is_said_and_not_0():
    session = prepared(Block())
    memory = session.memory()
    assert (memory.saved, memory.saved_bytes, memory.most_gradients) == (None, None, None)
    assert "saved activations" not in memory.by_kind
    text = str(memory)
    assert "saved activations  not measured" in text
    assert "run one training step" in text
    assert memory.weights == 4 * memory.parameters == 4 * (WIDTH * WIDTH + WIDTH + 8 * WIDTH + 8)


def test_every_kind_of_an_fp32_step():
    model, x = Block(), batch()
    session = prepared(model)
    session.step(loss_of(model, x))
    memory, weights = session.memory(), 4 * sum(p.numel() for p in model.parameters())
    assert memory.weights == weights
    assert (memory.masters, memory.buffers) == (0, 0)
    assert memory.other == {"random states": 3 * 16}
    assert memory.moments == 2 * weights
    assert memory.counters == 4 * 4, "one step counter for each of four parameters"
    assert (memory.gradients, memory.most_gradients) == (0, weights)
    hidden = ROWS * WIDTH * 4
    assert memory.saved == {
        "first": x.nbytes,
        "<model>": hidden,  # tanh saves its result, which the GELU saves too
        "last": hidden,
        "<loss>": ROWS * 8 * 4,
    }
    assert memory.notes == ()


def live_bytes() -> int:
    """Of the tensors of this process, as the garbage collector finds them."""
    for _ in range(3):  # what finalizers of one collection let go is garbage of the next one
        gc.collect()
    return sum(storages_in([o for o in gc.get_objects() if type(o) in (Tensor, nn.Parameter)]).values())


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, mixprec.optim.AdamW])
@pytest.mark.parametrize("weights", ["master", "split", "kahan", "stochastic", "true"])
def test_all_that_a_session_holds_is_told_and_nothing_is_left_behind(optimizer: Any, weights: Any):
    with ThreadPoolExecutor(1) as fresh:  # a thread keeps the workspaces of casts for its next session
        fresh.submit(check_all_that_a_session_holds, optimizer, weights).result()


@contextmanager
def only_what_is_new() -> Iterator[None]:
    """What is there before is neither looked through nor counted: other tests leave millions of objects."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def check_all_that_a_session_holds(optimizer: Any, weights: Any) -> None:
    torch._dynamo.reset()
    with only_what_is_new():
        x, before = batch(), live_bytes()
        model = Block()
        model = model.to(torch.bfloat16) if weights == "master" else model
        recipe = Recipe(name="kept", compute_dtype="bf16", weights=weights)
        session = mixprec.prepare(model, optimizer(model.parameters(), lr=1e-3), recipe, clip_norm=1.0)
        for _ in range(3):
            session.backward(loss_of(model, x))
            session.step(loss_of(model, x))
        session.average(0.9)
        assert session.memory().held == live_bytes() - before
        del session, model
        assert live_bytes() == before
    assert gc.get_freeze_count() == 0


def test_gradients_that_are_there_are_told():
    model = Block()
    session = prepared(model)
    session.step(loss_of(model, batch()), zero_grad=False)
    memory = session.memory()
    assert memory.gradients == memory.most_gradients == memory.weights
    assert "gradients now" not in str(memory)


def test_saved_bytes_are_what_the_forward_pass_left_allocated():
    for recompute in (None, False, True):
        model, x = Block(recompute), batch()
        session = prepared(model, monitor=None)  # whose recording keeps a random state
        session.step(loss_of(model, x))
        session.measure_next_step()
        loss, left, _ = run_and_count(lambda model=model, x=x: loss_of(model, x))
        session.step(loss)
        assert session.memory().saved_bytes == left - loss.nbytes + x.nbytes, f"recompute: {recompute}"


def lasting(memory: Memory) -> int:
    """What is there between steps, but for the random states of passes that may be repeated: up to 128."""
    return memory.kept - memory.other.get("random states", 0)


@pytest.mark.parametrize("recipe", ["fp32", "bf16", "mxfp8", "nvfp4", "fp8-delayed"])
def test_no_more_is_counted_than_the_profiler_saw(recipe: str):
    model, x = Block(), batch()
    session = prepared(model, recipe)
    session.step(loss_of(model, x))
    resident = lasting(session.memory())
    session.measure_next_step()
    _, _, highest = run_and_count(lambda: session.step(loss_of(model, x)))
    memory = session.memory()
    assert memory.saved_bytes is not None
    assert memory.most_gradients is not None
    new = memory.saved_bytes - x.nbytes * (recipe == "fp32")  # the batch was there before
    assert resident + max(new, memory.most_gradients) <= resident + highest
    assert lasting(memory) == resident


def test_codes_are_counted_as_codes():
    layer = nn.Sequential(nn.Linear(64, 64, bias=False))
    session = prepared(layer, "mxfp8")
    session.step(loss_of(layer, batch()))
    memory = session.memory()
    codes, scales, outer = ROWS * 64, ROWS // 32 * 64, 4
    assert memory.saved == {"0": codes + scales + outer, "<loss>": ROWS * 64 * 4}


@pytest.mark.parametrize("recompute", [False, True])
def test_of_a_checkpoint_only_what_it_keeps(recompute: bool):
    plain, recomputed, x = Block(), Block(recompute), batch()
    for model in (plain, recomputed):
        session = prepared(model, "bf16")
        session.step(loss_of(model, x))
        saved = session.memory().saved
        assert saved is not None
        assert ("last" in saved) == (model is plain)
        assert saved["<model>"] == ROWS * WIDTH * 2


def test_sites_of_recurrent_and_nested_modules():
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.body = nn.Embedding(50, WIDTH), nn.ModuleDict({"rnn": nn.GRU(WIDTH, 16)})

        def forward(self, x: Tensor) -> Tensor:
            return self.body["rnn"](self.embed(x))[0]

    model = Tagger()
    session = prepared(model)
    session.step(loss_of(model, torch.arange(40).reshape(8, 5)))
    saved = session.memory().saved
    assert saved is not None
    assert set(saved) == {"embed", "body.rnn", "<loss>"}
    assert saved["embed"] == 40 * 8


def test_a_tied_weight_counts_once():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False))
    model[1].weight = model[0].weight
    session = prepared(model)
    session.step(loss_of(model, batch()))
    memory = session.memory()
    assert memory.parameters == WIDTH * WIDTH
    assert memory.weights == memory.most_gradients == memory.moments // 2 == 4 * WIDTH * WIDTH


def test_running_statistics_are_buffers():
    model = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8))
    session = prepared(model)
    loss = loss_of(model, batch())
    assert session.memory().other == {"random states": 3 * 16, "copies of buffers": 2 * 8 * 4 + 8}
    session.step(loss)
    assert session.memory().buffers == 2 * 8 * 4 + 8


def test_what_casts_keep_between_steps_is_told_apart():
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
    session = prepared(model, "fp8-delayed")
    for _ in range(2):
        session.backward(loss_of(model, batch()))
    other = session.memory().other
    workspace = session._conversion.state.current.workspace
    assert other["cast workspaces"] == sum(storages_in(workspace.tensors).values()) > 0
    histories = session._conversion.state.histories
    assert other["random states"] >= 5 * 16, "of the conversion, the step and the passes that may be repeated"
    assert other["amax histories"] == 2 * sum(history.nbytes for history in histories.values()) > 0


def accumulate(session: Session, model: nn.Module, parts: list[Tensor]) -> None:
    for x in parts:
        session.backward(loss_of(model, x))


def two_forwards_first(session: Session, model: nn.Module, parts: list[Tensor]) -> None:
    for loss in [loss_of(model, x) for x in parts]:
        session.backward(loss)


@pytest.mark.parametrize(("way", "times"), [(accumulate, 1), (two_forwards_first, 2)])
def test_micro_batches(way: Callable[..., None], times: int):
    model = Block()
    session = prepared(model)
    way(session, model, [batch(1), batch(2)])
    session.step()
    together = session.memory()
    alone = prepared(Block())
    alone.step(loss_of(alone.model, batch()))
    one = alone.memory().saved
    assert one is not None
    assert together.saved == {site: times * n for site, n in one.items()}
    assert together.most_gradients == together.weights


def test_two_losses_over_one_graph():
    model, x = Block(), batch()
    session = prepared(model)
    y = model(x)
    first, second = y.square().mean(), y.exp().mean()
    session.backward(first, retain_graph=True)
    session.backward(second, retain_graph=True)
    session.backward(y.sin().mean())  # computed when the first backward pass was over
    session.step()
    saved, hidden = session.memory().saved, ROWS * WIDTH * 4
    assert saved == {"first": x.nbytes, "<model>": hidden, "last": hidden, "<loss>": 2 * ROWS * 8 * 4}


def test_evaluations_in_between_and_what_is_thrown_away_do_not_count():
    model, x = Block(), batch()
    session = prepared(model)
    loss = loss_of(model, x)
    model.eval()
    with torch.no_grad():
        loss_of(model, batch(rows=1000))
    model.train()
    loss_of(model, batch(rows=500))  # with a graph, and dropped
    session.step(loss)
    alone = prepared(Block())
    alone.step(loss_of(alone.model, x))
    assert session.memory().saved == alone.memory().saved


def test_a_step_is_measured_again_on_request():
    model = Block()
    session = prepared(model)
    session.step(loss_of(model, batch()))
    first = session.memory()
    session.step(loss_of(model, batch(rows=2 * ROWS)))
    assert session.memory() == first, "other steps are not measured"
    session.measure_next_step()
    session.step(loss_of(model, batch(rows=2 * ROWS)))
    second = session.memory()
    assert (first.from_step, second.from_step) == (0, 2)
    assert (first.saved_bytes, second.saved_bytes) == pytest.approx((20480 + 5120 - 5120 + 5120, 2 * 25600))


def test_other_steps_do_not_look(monkeypatch: pytest.MonkeyPatch):
    model = Block()
    session = prepared(model)
    session.step(loss_of(model, batch()))

    def refuse(_: object) -> Any:
        raise AssertionError("a step that is not measured was looked into")

    monkeypatch.setattr(_memory_meter, "saved_tensors", refuse)
    monkeypatch.setattr(_memory_count, "storages_in", refuse)
    session.step(loss_of(model, batch()))


@pytest.mark.parametrize("recipe", ["fp32", "fp16", "nvfp4"])
@pytest.mark.parametrize("recompute", [None, False])
def test_measuring_changes_no_number(recipe: str, recompute: bool | None):
    def train(*, measures: bool) -> list[Tensor]:
        torch.manual_seed(3)
        model = Block(recompute)
        session = prepared(model, recipe, seed=1)
        for step in range(4):
            if measures:
                session.measure_next_step()
            session.backward(loss_of(model, batch(step)))
            session.backward(loss_of(model, batch(step + 10)))
            session.step()
            if measures:
                session.memory()
        return [p.detach().clone() for p in model.parameters()]

    often, seldom = train(measures=True), train(measures=False)
    assert all(torch.equal(a, b) for a, b in zip(often, seldom, strict=True))


def test_a_compiled_model_is_told_as_a_whole():
    torch._dynamo.reset()  # each code object is compiled a limited number of times in a process
    torch.manual_seed(0)
    model, x = Block(), batch()
    session = prepared(model)
    session.step(torch.compile(model, backend="aot_eager")(x).square().mean())
    memory = session.memory()
    assert memory.saved is not None
    assert set(memory.saved) == {"<model>"}
    assert memory.saved["<model>"] >= x.nbytes + ROWS * WIDTH * 4
    assert any("torch.compile" in note for note in memory.notes)


def test_what_cannot_be_seen_into_is_told():
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.gain = nn.Linear(WIDTH, 8), nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            y = self.layer(x)
            y[:, :4].mul_(self.gain)
            return y

    model = InPlace()
    session = prepared(model)
    session.step(loss_of(model, batch()))
    assert "CopySlices" in session.memory().notes[0]


def test_it_prints_a_table():
    memory = Memory(
        recipe="bf16",
        parameters=1000,
        weights=2000,
        masters=4000,
        moments=8000,
        counters=16,
        gradients=0,
        most_gradients=4000,
        saved={f"block{i}": 100 * i for i in range(12, 0, -1)},
        buffers=0,
    )
    lines = str(memory).splitlines()
    assert lines[0] == "memory of recipe bf16: 1,000 parameters"
    assert [line.split() for line in lines[1:9]] == [
        ["bytes", "per", "parameter"],
        ["weights", "2,000", "2.000"],
        ["masters", "4,000", "4.000"],
        ["moments", "8,000", "8.000"],
        ["counters", "16", "0.016"],
        ["gradients", "now", "0", "0.000"],
        ["gradients", "after", "a", "backward", "pass", "4,000", "4.000"],
        ["saved", "activations", "7,800", "7.800"],
    ]
    assert lines[9].split() == ["block12", "1,200", "15", "%"]
    assert lines[-1].split() == ["2", "other", "sites", "300", "4", "%"]
    assert (memory.held, memory.saved_bytes) == (14016, 7800)
