"""Every rule that the doctor prints loads, and does what it says to the layer that it is about, and to no other."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.monitor.doctor import diagnose, with_rule
from mixprec.monitor.doctor._rules import cast_rule, compute_rule
from mixprec.specs import Layer, LayerPrecision, LossScale, Phase, Recipe, Rule, parse_cast, recipe, recipe_names
from mixprec.training import prepare
from tests.monitor.doctor.records import folder, skipped, statistics, update

PRECISION = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor] delayed(16,max,1)")
MINE = Recipe(name="mine", compute_dtype="bf16", rules=(Rule(match="blocks.*", type="Linear", precision=PRECISION),))
SITE = Layer(path="blocks.0.fc", type="Linear", features=(64, 64))
OTHER = Layer(path="blocks.0.fc2", type="Linear", features=(64, 64))


def precision_of(changed: Recipe, layer: Layer) -> LayerPrecision | None:
    rule = changed.rule_for(layer)
    return None if rule is None else rule.precision


def finding_of(path, records, mine=MINE, name="saturated"):
    (found,) = [found.finding for found in diagnose(folder(path, records, mine)).findings if found.finding.name == name]
    return found


def test_without_a_better_cast_the_layer_goes_to_the_compute_dtype(tmp_path):
    finding = finding_of(tmp_path, [statistics(cast="e4m3[tensor]", role="input", saturated=0.2)])
    assert finding.remedy == "leave this layer in the compute dtype"
    changed = with_rule(MINE, finding.rule)
    assert precision_of(changed, SITE) is None
    assert changed.rule_for(SITE) is not None
    assert precision_of(changed, OTHER) == PRECISION


def test_a_delayed_scale_that_saturates_becomes_a_current_one(tmp_path):
    finding = finding_of(tmp_path, [statistics(cast="e5m2[tensor] delayed(16,max,1)", saturated=0.2)])
    assert "current scale" in finding.remedy
    expected = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]")
    changed = with_rule(MINE, finding.rule)
    assert precision_of(changed, SITE) == expected
    assert precision_of(changed, OTHER) == PRECISION


def test_a_measured_what_if_of_as_many_bits_is_preferred(tmp_path):
    what_ifs = [("mxfp8", 0.0, 30.0), ("mxfp6", 0.001, 20.0), ("mxfp4", 0.4, 12.0), ("bf16", 0.0, 50.0)]
    records = [statistics(cast="e5m2[tensor] delayed(16,max,1)", saturated=0.2)]
    records += [statistics(cast=cast, in_use=False, saturated=s, sqnr_db=db) for cast, s, db in what_ifs]
    finding = finding_of(tmp_path, records)
    assert finding.remedy.startswith("mxfp8 for this operand: measured beside it in 1 samples: 0 % flushed, 0 %")
    precision = precision_of(with_rule(MINE, finding.rule), SITE)
    assert precision is not None
    assert {str(precision.dgrad_grad_output), str(precision.wgrad_grad_output)} == {"mxfp8"}
    assert precision.fprop_input == PRECISION.fprop_input


def test_a_what_if_that_failed_in_one_sample_is_not_advised(tmp_path):
    records = [statistics(cast="e4m3[tensor]", role="input", saturated=0.2)]
    records += [statistics(n, role="input", cast="mxfp8", in_use=False, saturated=s) for n, s in ((0, 0.0), (1, 0.9))]
    assert precision_of(with_rule(MINE, finding_of(tmp_path, records).rule), SITE) is None


def test_a_cast_that_does_not_go_with_the_others_is_not_advised(tmp_path):
    records = [statistics(cast="e5m2[tensor] delayed(16,max,1)", flushed=0.9)]
    records += [statistics(cast="nvfp4 rht16", in_use=False)]
    finding = finding_of(tmp_path, records, name="flushed")
    assert "rht16" not in finding.rule
    assert precision_of(with_rule(MINE, finding.rule), SITE) == LayerPrecision.of(
        input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]"
    )


def test_without_its_recipe_the_layer_goes_to_the_compute_dtype(tmp_path):
    records = [statistics(cast="e5m2[tensor] delayed(16,max,1)", saturated=0.2)]
    finding = finding_of(tmp_path, records, mine=None)
    assert precision_of(with_rule(MINE, finding.rule), SITE) is None


def test_gradients_of_parameters_have_no_rule(tmp_path):
    finding = finding_of(
        tmp_path, [statistics(site="fc.weight", role="gradient", cast="fp16", flushed=0.9)], name="flushed"
    )
    assert finding.rule == ""


@pytest.mark.parametrize("path", ["a[0].b", "a*b", "x?", "(model)", "", "<loss>"])
def test_a_rule_is_about_one_path_alone(path):
    text = compute_rule(path)
    if path in ("(model)", "", "<loss>"):
        assert text == ""
        return
    changed = with_rule(MINE, text)
    assert changed.rules[0].matches(Layer(path=path, type="Linear"))
    assert not changed.rules[0].matches(Layer(path="a0.b", type="Linear"))
    assert not changed.rules[0].matches(Layer(path="axb", type="Linear"))


def test_products_of_attention_are_named_by_their_type():
    changed = with_rule(MINE, compute_rule("blocks.0.attn.qk"))
    rule = changed.rule_for(Layer(path="blocks.0.attn", type="qk"))
    assert rule is not None
    assert rule.precision is None
    assert precision_of(changed, Layer(path="blocks.0.attn.qk", type="Linear")) is None  # a layer of that name
    assert precision_of(changed, Layer(path="blocks.0.attn", type="Linear")) == PRECISION


def test_a_rule_goes_into_every_phase():
    phased = Recipe(
        name="mine", compute_dtype="bf16", rules=MINE.rules, phases=(Phase(from_step=10, rules=MINE.rules),)
    )
    changed = with_rule(phased, compute_rule("blocks.0.fc"))
    assert precision_of(changed.at(0), SITE) is None
    assert precision_of(changed.at(10), SITE) is None
    assert precision_of(changed.at(10), OTHER) == PRECISION


@pytest.mark.parametrize("text", ["[[rules", "no_such_key = 1\n", '[[rules]]\nmatch = "a"\nprecision = "fp7"\n'])
def test_what_is_no_part_of_a_recipe_is_refused(text):
    with pytest.raises(ValueError, match=r"rule|recipe|no_such_key|fp7"):
        with_rule(MINE, text)


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != "auto"])
def test_rules_go_with_every_recipe(name):
    base = recipe(name)
    for rule in base.all_rules:
        operands = {} if rule.precision is None else {"input": rule.precision.fprop_input}
        for role, now in operands.items():
            if now is not None:
                text = cast_rule("blocks.0.fc", role, parse_cast("mxfp8"), base, now)
                assert not text or with_rule(base, text).rules[0].match == "blocks.0.fc"
    assert with_rule(base, compute_rule("blocks.0.fc")).rules[0].precision is None


def test_the_rule_does_to_a_model_what_it_says(tmp_path):
    base = recipe("mxfp8")
    records = [statistics(site="0", role="input", cast="mxfp8 rceil", saturated=0.2, recipe="mxfp8")]
    (found,) = diagnose(folder(tmp_path, records, base)).findings
    model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = prepare(model, optimizer, with_rule(base, found.finding.rule), monitor=None)
    session.step(model(torch.randn(4, 32)).square().mean())
    rows = session.audit().rows
    assert {row.site for row in rows if "mxfp8" in row.format} == {"1"}
    assert {row.format for row in rows if row.site != "1"} == {"fp32"}


def test_a_collapsed_fp16_scale_goes_to_bf16(tmp_path):
    scale = LossScale(kind="dynamic", initial=2.0, minimum=1.0)
    mine = Recipe(name="mine", compute_dtype="fp16", loss_scale=scale)
    finding = finding_of(tmp_path, [skipped(0, loss_scale=s) for s in (2.0, 1.0, 1.0)], mine, "loss scale at floor")
    changed = with_rule(mine, finding.rule)
    assert (changed.compute_dtype, changed.loss_scale.kind) == ("bf16", "none")


def test_stalled_weights_get_a_master(tmp_path):
    mine = Recipe(name="mine", compute_dtype="bf16", weights="true")
    finding = finding_of(tmp_path, [update(lost=0.9)], mine, "stalled weights")
    assert with_rule(mine, finding.rule).weights == "master"


def test_two_operands_of_one_layer_are_mended_by_one_rule(tmp_path):
    delayed = "delayed(16,max,1)"
    records = [
        statistics(cast=f"e5m2[tensor] {delayed}", role="grad_output", saturated=0.2),
        statistics(cast=f"e4m3[tensor] {delayed}", role="input", saturated=0.3),
    ]
    casts = LayerPrecision.of(
        input=f"e4m3[tensor] {delayed}", weight="e4m3[tensor]", grad_output=f"e5m2[tensor] {delayed}"
    )
    mine = Recipe(name="mine", compute_dtype="bf16", rules=(Rule(match="blocks.*", type="Linear", precision=casts),))
    path = folder(tmp_path, records, mine)
    findings = [d.finding for d in diagnose(path).findings if d.finding.name == "saturated"]
    rules = [finding.rule for finding in findings if finding.rule]
    assert (len(findings), len(rules)) == (2, 1)
    precision = precision_of(with_rule(mine, rules[0]), SITE)
    assert str(precision.fprop_input) == str(precision.wgrad_input) == "e4m3[tensor]"
    assert str(precision.dgrad_grad_output) == "e5m2[tensor]"
    assert "in the rule for" in next(finding for finding in findings if not finding.rule).remedy
