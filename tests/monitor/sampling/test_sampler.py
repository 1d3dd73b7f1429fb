"""What is sampled of a session's steps equals a float64 recomputation, and belongs to its step."""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import mixprec
import mixprec.monitor
from mixprec.monitor import Monitoring
from mixprec.records import FindingRecord, StatisticsRecord, UpdateRecord, read_records
from mixprec.tensors import fake_quantize
from mixprec.training import prepare

EVERY = {"alarms": False, "recorder_steps": 0, "locate": False, "every": 1}


def model_of(width=64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(width, width), nn.LayerNorm(width), nn.Linear(width, width))


def session_of(run, recipe="mxfp8", model=None, **options):
    model = model_of() if model is None else model
    monitor = Monitoring(**{**EVERY, **options})
    return prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe, run=run, monitor=monitor)


def sampled(run, kind=StatisticsRecord):
    return [r for r in read_records(run / "records.jsonl") if isinstance(r, kind)]


def check(record, x, rounded):
    """Every figure of a record, recomputed in float64."""
    x, y = x.double(), rounded.double()
    nonzero, d = x != 0, y.abs() - x.abs()
    assert record.elements == x.numel()
    assert record.zeros == (x == 0).double().mean().item()
    assert record.nonfinite == (~x.isfinite()).sum().item()
    assert record.amax == x.abs().max().item()
    assert record.flushed == ((y == 0) & nonzero).sum().item() / max(nonzero.sum().item(), 1)
    noise = (d * d).sum().item()
    expected = 10 * math.log10((x * x).sum().item() / noise) if noise else math.inf
    assert record.sqnr_db == pytest.approx(expected, rel=1e-9)
    assert record.relative_error == pytest.approx(d.abs().sum().item() / x.abs().sum().item(), rel=1e-9)
    assert record.bias == pytest.approx(d.sum().item() / x.abs().sum().item(), rel=1e-9, abs=1e-15)
    exponents = torch.frexp(x[nonzero])[1] - 1
    assert record.exponents == {str(e): (exponents == e).sum().item() for e in exponents.unique().tolist()}


def test_every_figure_equals_a_recomputation(tmp_path):
    session = session_of(tmp_path, what_if=("mxfp4", "fp16"))
    x = torch.randn(32, 64)
    weight = session.model[0].weight.detach().clone()
    session.step(session.model(x).square().mean())
    found = {(r.site, r.role, r.cast): r for r in sampled(tmp_path)}
    check(found["0", "input", "mxfp8 rceil"], x, fake_quantize(x, "mxfp8 rceil"))
    check(found["0", "input", "mxfp4"], x, fake_quantize(x, "mxfp4"))
    check(found["0", "input", "fp16"], x, x.half())
    check(found["0", "weight", "mxfp8 rceil"], weight, fake_quantize(weight, "mxfp8 rceil"))
    check(found["1", "weight", "fp32"], torch.ones(64), torch.ones(64))
    assert found["0", "input", "mxfp8 rceil"].in_use
    assert not found["0", "input", "mxfp4"].in_use


def test_gradients_are_told_without_the_loss_scale(tmp_path):
    model = model_of()
    monitor = Monitoring(**EVERY)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = prepare(model, optimizer, "fp16", run=tmp_path, monitor=monitor, loss_scale=1024.0)
    session.backward(model(torch.randn(32, 64)).square().mean())
    true = model[2].bias.grad.clone()
    session.step()
    (found,) = [r for r in sampled(tmp_path) if (r.site, r.role) == ("2.bias", "gradient")]
    check(found, true, true)


def test_most_gradients_of_a_tiny_loss_would_flush_in_fp16(tmp_path):
    """Miniature 2: a loss times 1e-4 without a scale; Micikevicius et al. 2018, section 3.2."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10))
    session = session_of(tmp_path, "fp32", model, what_if=("fp16",))
    x, y = torch.randn(512, 64), torch.randint(0, 10, (512,))
    session.step(nn.functional.cross_entropy(model(x), y) * 1e-4)
    found = [r for r in sampled(tmp_path) if r.role == "grad_output" and r.cast == "fp16"]
    lost = [r.flushed * (1 - r.zeros) * r.elements for r in found]
    assert sum(lost) / sum((1 - r.zeros) * r.elements for r in found) > 0.9
    for record in found:  # what flushes lies below half of the smallest subnormal number, 2^-25
        below = sum(n for e, n in record.exponents.items() if int(e) < -25)
        assert record.flushed == pytest.approx(below / sum(record.exponents.values()), abs=1e-6)


def test_only_sampled_steps_and_chosen_sites(tmp_path):
    session = session_of(tmp_path, every=2, sites=("2", "*.bias"))
    for i in range(4):
        session.step(session.model(torch.randn(8, 64)).square().mean())
        hooks = sum(len(m._forward_hooks) for m in session.model.modules())
        assert hooks == i % 2  # before a sampled step that which counts passes
    assert {r.step for r in sampled(tmp_path)} == {0, 2}
    assert {r.site for r in sampled(tmp_path)} == {"2", "0.bias", "1.bias", "2.bias"}
    assert {r.site for r in sampled(tmp_path, UpdateRecord)} == {"0.bias", "1.bias", "2.bias"}


def test_the_first_of_several_micro_batches_is_told_and_the_whole_gradient(tmp_path):
    session = session_of(tmp_path, "fp32")
    batches = [torch.randn(8, 64), 100 * torch.randn(8, 64)]
    for x in batches:
        session.backward(session.model(x).square().mean() / 2)
    gradient = session.model[0].weight.grad.clone()
    session.step()
    found = {(r.site, r.role): r for r in sampled(tmp_path)}
    assert found["0", "input"].amax == batches[0].abs().max().item()
    assert found["0.weight", "gradient"].amax == gradient.abs().max().item()


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_tells_nothing_twice(tmp_path, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    torch.manual_seed(0)
    x = torch.randn(8, 64, requires_grad=True)
    told = []
    for model, name in ((Checkpointed(), "a"), (nn.ModuleDict({"inner": model_of()}), "b")):
        session = session_of(tmp_path / name, "mxfp8", model)
        session.step((model(x) if name == "a" else model["inner"](x)).square().mean())
        told.append({(r.site, r.role, r.cast): (r.amax, r.sqnr_db) for r in sampled(tmp_path / name)})
        assert len(told[-1]) == len(sampled(tmp_path / name))
    assert told[0] == told[1]


def test_a_skipped_step_is_sampled_and_comes_again(tmp_path):
    session = session_of(tmp_path, "fp32", locate=True)
    x = torch.randn(8, 64)
    session.step(session.model(x).square().mean() * math.inf)
    session.step(session.model(2 * x).square().mean())
    inputs = [r.amax for r in sampled(tmp_path) if (r.site, r.role, r.step) == ("0", "input", 0)]
    assert inputs == [x.abs().max().item(), 2 * x.abs().max().item()]
    gradients = [r.nonfinite for r in sampled(tmp_path) if (r.site, r.role) == ("2.bias", "gradient")]
    assert gradients == [64, 0]


def test_dropped_passes_belong_to_no_step(tmp_path):
    session = session_of(tmp_path, "fp32")
    session.backward(session.model(torch.full((8, 64), 1e6)).square().mean())
    session.zero_grad()
    session.step(session.model(torch.ones(8, 64)).square().mean())
    (found,) = [r for r in sampled(tmp_path) if (r.site, r.role) == ("0", "input")]
    assert found.amax == 1.0


@pytest.mark.parametrize(("recipe", "lost"), [("bf16", 0.0), ("bf16-true", 1.0)])
def test_updates_below_half_a_unit_are_lost_without_a_master(tmp_path, recipe, lost):
    """Kind 3: with a master the full weight moves, in bare bf16 nothing does."""
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    session = prepare(model, optimizer, recipe, run=tmp_path, monitor=Monitoring(**{**EVERY, "alarms": True}))
    session.step((model(torch.randn(8, 64)) * torch.randn(8, 64)).sum() / 8)
    (found,) = [r for r in sampled(tmp_path, UpdateRecord) if r.site == "1.weight"]
    assert found.lost == pytest.approx(lost, abs=0.05)
    assert (found.update_norm == 0.0) == (lost == 1.0)
    alarms = [r for r in sampled(tmp_path, FindingRecord) if r.site == "1.weight"]
    assert bool(alarms) == (lost == 1.0)


def test_an_infinity_that_a_cast_launders_is_counted(tmp_path):
    """Kind 2: a saturating cast makes 448 of an overflow; the operand before it says what it was."""
    model = model_of()
    session = session_of(tmp_path, "mxfp8", model)
    x = torch.randn(8, 64)
    x[0, 0] = math.inf
    session.step(model(x).square().mean())
    (found,) = [r for r in sampled(tmp_path) if (r.site, r.role) == ("0", "input")]
    assert found.nonfinite == 1


def test_subnormal_numbers_of_a_16_bit_tensor_are_told():
    """Kind 10: constants that vanish in fp16 lie below 2^-14 first."""
    model = nn.LayerNorm(4).half()
    nn.init.constant_(model.weight, 2.0**-20)
    with mixprec.monitor(model, options=Monitoring(every=1)) as monitor:
        model(torch.randn(2, 4, dtype=torch.float16)).sum().backward()
        model(torch.randn(2, 4, dtype=torch.float16))
        (found,) = [r for r in monitor.statistics() if r.role == "weight"]
    assert (found.cast, found.subnormal, found.amax) == ("fp16", 1.0, 2.0**-20)


def test_a_module_of_transformer_engine_is_seen():
    """Known by the module of its class; weights by their names, quantized ones by dequantize()."""
    kind = type("LayerNormMLP", (nn.Module,), {"__module__": "transformer_engine.pytorch.module.layernorm_mlp"})

    def forward(self, x):
        return x @ self.fc1_weight.t() @ self.fc2_weight.t()

    kind.forward = forward
    mlp = kind()
    mlp.fc1_weight, mlp.fc2_weight = nn.Parameter(torch.randn(16, 8)), nn.Parameter(torch.randn(8, 16))
    model = nn.Sequential(mlp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with mixprec.monitor(model, optimizer, Monitoring(every=1)) as monitor:
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        found = {(r.site, r.role) for r in monitor.statistics()}
    assert found >= {("0", "input"), ("0", "output"), ("0", "grad_output"), ("0.fc1", "weight"), ("0.fc2", "weight")}
    assert "transformer_engine" not in sys.modules
