from __future__ import annotations

import pytest

from mixprec.monitor import Alarms
from mixprec.records import UpdateRecord
from mixprec.specs import Recipe


def update(lost: float, dtype: str = "bf16") -> UpdateRecord:
    return UpdateRecord(
        recipe="bf16-true",
        seed=0,
        step=4,
        site="norm.weight",
        dtype=dtype,
        weight_norm=2.0,
        gradient_norm=0.2,
        update_norm=0.002,
        ratio=0.001,
        lost=lost,
    )


def test_weights_that_stand_still_are_told_once_with_a_rule_that_mends_it():
    alarms = Alarms()
    (finding,) = alarms.updates([update(1.0)])
    assert (finding.name, finding.site) == ("stalled weights", "norm.weight")
    assert "bf16 holds 8 significant bits" in finding.message
    assert Recipe.from_toml(f'name = "mine"\ncompute_dtype = "bf16"\n{finding.rule}').weights == "master"
    assert alarms.updates([update(1.0)]) == ()


@pytest.mark.parametrize("lost", [0.0, 0.5])
def test_few_lost_updates_are_ordinary(lost: float):
    assert Alarms().updates([update(lost)]) == ()


def test_a_wide_weight_gets_other_advice():
    (finding,) = Alarms().updates([update(0.9, "fp32")])
    assert finding.rule == ""
    assert "learning rate" in finding.remedy
