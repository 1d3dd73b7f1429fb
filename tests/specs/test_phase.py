"""Phases: rules that hold from a step on."""

from __future__ import annotations

import pytest

from mixprec.specs import LayerPrecision, Phase, Recipe, Rule, recipe

NARROW = (Rule(precision=LayerPrecision.uniform("mxfp4")),)
MIDDLE = (Rule(precision=LayerPrecision.uniform("mxfp8")),)


def rules_at(late: Recipe, steps: range, total: int | None = None) -> list[int]:
    """Which set of rules holds at each step: 0 the recipe's own, 1 the first phase's, ..."""
    sets = [late.rules, *(phase.rules for phase in late.phases)]
    return [sets.index(late.at(step, total).rules) for step in steps]


def test_a_phase_from_a_step_on():
    late = Recipe(name="late", rules=NARROW, phases=(Phase(from_step=2, rules=MIDDLE), Phase(from_step=4)))
    assert rules_at(late, range(6)) == [0, 0, 1, 1, 2, 2]
    assert not late.needs_total_steps
    assert late.at(10**9).rules == ()


def test_a_phase_at_the_end_of_the_run():
    late = Recipe(name="late", rules=NARROW, phases=(Phase(last=0.5, rules=MIDDLE), Phase(last=0.2)))
    assert rules_at(late, range(10), 10) == [0] * 5 + [1] * 3 + [2] * 2
    assert late.needs_total_steps
    with pytest.raises(ValueError, match=r"'last 0\.5' needs the length of the run: say total_steps"):
        late.at(0)


def test_both_kinds_together():
    late = Recipe(name="late", rules=NARROW, phases=(Phase(from_step=3, rules=MIDDLE), Phase(last=0.2)))
    assert rules_at(late, range(10), 10) == [0] * 3 + [1] * 5 + [2] * 2
    with pytest.raises(ValueError, match=r"with 3 steps its phases begin at \[3, 2\], out of order"):
        late.at(0, 3)


def test_the_recipe_at_a_step_is_the_same_but_for_its_rules():
    late = recipe("nvfp4", compute_dtype="bf16", phases=(Phase(last=0.18, rules=recipe("bf16").rules),))
    assert late.at(0, 100) == recipe("nvfp4", compute_dtype="bf16")
    assert late.at(82, 100) == recipe("nvfp4", compute_dtype="bf16", rules=())
    assert late.at(0, 100).phases == ()


def test_all_rules_are_those_of_every_phase():
    late = Recipe(name="late", rules=NARROW, phases=(Phase(from_step=2, rules=MIDDLE), Phase(from_step=4)))
    assert late.all_rules == (*NARROW, *MIDDLE)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "from_step=None, last=None, when=None: expected one of the three"),
        ({"from_step": 3, "last": 0.5}, "from_step=3, last=0.5, when=None: expected one of the three"),
        *(({"from_step": step}, "expected a step from 1 on") for step in (0, -1, 1.5, True, "3")),
        *(({"last": share}, "a share between 0 and 1") for share in (0.0, 1.0, -0.1, 1, float("nan"), "0.2")),
    ],
)
def test_senseless_phases_are_refused(fields: dict[str, object], reason: str):
    with pytest.raises(ValueError, match=reason):
        Phase(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "phases",
    [
        (Phase(from_step=3), Phase(from_step=3)),
        (Phase(from_step=4), Phase(from_step=3)),
        (Phase(last=0.2), Phase(last=0.5)),
        (Phase(from_step=4), Phase(last=0.5), Phase(from_step=3)),
    ],
)
def test_phases_out_of_order_are_refused(phases: tuple[Phase, ...]):
    with pytest.raises(ValueError, match="recipe 'late': its phases are out of order"):
        Recipe(name="late", phases=phases)
