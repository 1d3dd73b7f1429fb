"""What a check takes, refuses, tells and prints; on sessions, converted models, compiled ones and bare loops."""

from __future__ import annotations

import tomllib

import pytest
import torch
from torch import Tensor, nn

import mixprec
from mixprec.monitor import Finding, Preflight, check_step
from mixprec.monitor.check._findings import Findings
from mixprec.training import prepare
from tests.monitor.check.planted import H1, Told, batch, loss_of


def test_what_is_no_step_is_refused_with_what_to_do() -> None:
    model = nn.Linear(8, 8)
    for step, error, said in (
        (model(batch()).mean(), TypeError, "step is Tensor, expected a function"),
        (lambda: 1.0, TypeError, "step returned float, expected the loss"),
        (lambda: model(batch()), ValueError, r"shape \(4, 8\), expected one number"),
        (lambda: model(batch()).mean().detach(), ValueError, "has no graph"),
    ):
        with pytest.raises(error, match=said):
            check_step(model, step)
    with pytest.raises(TypeError, match=r"model is function, expected torch\.nn\.Module"):
        check_step(loss_of(model, batch()), loss_of(model, batch()))
    with pytest.raises(ValueError, match="loss_scale is 0, expected a positive number"):
        check_step(model, loss_of(model, batch()), loss_scale=0)


def test_a_session_that_was_restored_is_refused() -> None:
    model = nn.Linear(8, 8)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    session.restore()
    with pytest.raises(ValueError, match="check: the session was restored"):
        session.check(loss_of(model, batch()))


def test_a_preflight_is_a_sequence_that_prints() -> None:
    model = H1().bfloat16()
    x, y = torch.full((1, 1), 10.0).bfloat16(), torch.zeros(1, 1).bfloat16()
    found = check_step(model, lambda: nn.BCELoss()(model(x), y))
    assert isinstance(found, Preflight)
    assert [f.severity for f in found] == ["fault", "warning"]
    assert (found.faults, found.warnings, found[:1]) == (found.findings[:1], found.findings[1:], found.findings[:1])
    lines = str(found).splitlines()
    assert lines[0] == "check of the model as it is: 1 fault, 1 warning in one step"
    assert lines[1] == "  fault: <loss> (binary_cross_entropy): probabilities into a loss"
    assert any(line.startswith("    evidence: dtype bf16, share of exact 0 or 1 1") for line in lines)
    assert "    remedy: leave the sigmoid out and give the logits to BCEWithLogitsLoss" in lines


def test_every_rule_parses_into_a_recipe() -> None:
    model = Told(lambda s, h: (h * 300) * (h * 300)).half()
    found = check_step(model, loss_of(model, batch(dtype=torch.float16)), torch.optim.SGD(model.parameters(), lr=1e-9))
    rules = [f.rule for f in found if f.rule]
    assert rules
    for rule in rules:
        tomllib.loads(rule)
        mixprec.Recipe.from_toml(f'name = "mine"\n{rule}')


def test_a_model_that_was_converted_without_a_session_is_checked_under_its_recipe() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    conversion = mixprec.convert(model, "nvfp4")
    before = conversion.random_state()
    found = check_step(model, lambda: model(torch.ones(4, 32)).square().mean())
    assert found.recipe == "nvfp4"
    assert not found.faults
    assert torch.equal(conversion.random_state(), before)


def test_two_checks_tell_the_same() -> None:
    torch.manual_seed(0)
    model = Told(lambda s, h: torch.dropout(h, 0.5, True) * 300 * h * 300)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16")
    first, second = (session.check(loss_of(model, batch())) for _ in range(2))
    assert first == second


def test_a_loss_with_a_name_of_its_own_makes_no_scale() -> None:
    model = nn.Linear(8, 8)
    session = prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale={"adv": 65536.0, "loss": 8.0}
    )
    (fault,) = session.check(lambda: 100.0 * model(batch()).sum(), name="adv").faults
    assert fault.evidence["loss scale"] == 65536
    assert not session.check(lambda: 100.0 * model(batch()).sum()).faults
    session.check(lambda: model(batch()).sum(), name="other")
    assert set(session.loss_scales) == {"adv", "loss"}


def test_one_line_in_many_blocks_is_one_finding() -> None:
    class Block(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.softmax(x.masked_fill(x < 99, float("-inf")), -1).nan_to_num()

    model = nn.Sequential(nn.Linear(8, 8), *(Block() for _ in range(6)))
    found = check_step(model, loss_of(model, batch()))
    told = [f for f in found if f.name == "masked row"]
    assert [f.site for f in told] == ["1 (softmax)"]
    assert "(so too: 2 (softmax), 3 (softmax), 4 (softmax) and 2 more)" in told[0].message
    assert told[0].evidence["places"] == 6


def test_findings_of_one_name_keep_the_worst() -> None:
    findings = Findings()
    findings.add(
        Finding(step=0, name="n", severity=severity, site=site, message=site, evidence={"line": "a.py:1"})
        for severity, site in (("note", "a (add)"), ("fault", "b (add)"), ("note", "a (add)"))
    )
    (told,) = findings.all()
    assert (told.severity, told.site, told.evidence["places"]) == ("fault", "b (add)", 2)


def test_a_compiled_call_is_watched_uncompiled() -> None:
    torch._dynamo.reset()
    model = Told(lambda s, h: torch.softmax(h.masked_fill(h < 99, float("-inf")), -1))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    compiled = torch.compile(model, backend="eager")
    assert [f.name for f in session.check(lambda: compiled(batch()).sum()).faults] == ["masked row"]


def test_under_activation_checkpointing_sites_are_the_forward_ones() -> None:
    from torch.utils.checkpoint import checkpoint

    inner = Told(lambda s, h: (h * 0).sqrt())
    outer = nn.Sequential(inner)
    found = check_step(
        outer, lambda: checkpoint(outer, batch(), use_reentrant=False).square().sum() + inner.layer.bias.sum()
    )
    assert found.faults
    assert all("0.after" in f.site for f in found.faults)
