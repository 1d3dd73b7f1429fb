"""A plan that gives nothing says what low precision would have taken, and from what width it would pay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mixprec.compare.planning import Planned, make_plan
from mixprec.compare.planning._all_kept import widened
from mixprec.hardware import find
from mixprec.planner import KEEP, Candidate, GroupScores, Inventory, Product, seconds_of
from mixprec.planner.plan import Plan, explain

from ._small import scorer
from .test_make_plan import request_for


def _planned(fixed: float, **changes) -> Planned:
    """On a device of 1 GFLOP/s with twice that for low precision, whose casts take a fixed time a layer."""

    def timing(inventory: Inventory) -> Callable[[GroupScores, Candidate], float]:
        def seconds(group: GroupScores, candidate: Candidate) -> float:
            flops = sum(product.flops for product in inventory.products if product.site in group.sites)
            return flops / 1e9 if candidate.name == KEEP else flops / 2e9 + fixed

        return seconds

    return make_plan(request_for(**changes), scorer, timing, lambda inventory: 1.0)


def _flops() -> int:
    """Of ``first`` (8 to 32), ``second`` (32 to 32) and ``head`` (32 to 4), 64 rows; the first has no dgrad."""
    return 2 * 64 * (2 * 8 * 32 + 3 * 32 * 32 + 3 * 32 * 4)


def test_one_sentence_says_what_low_precision_would_take_and_from_what_width_it_pays() -> None:
    fixed = 1e-3
    evidence = _planned(fixed, loss_budget=1.0).plan.evidence
    assert {group.candidate for group in evidence.groups} == {KEEP}
    (note,) = [note for note in evidence.notes if note.startswith("everything is kept")]
    keep, cast = _flops() / 1e9, _flops() / 2e9 + 3 * fixed
    assert f"in 3 groups would take {cast * 1e3:.3g} ms" in note
    assert f"keep takes {keep * 1e3:.3g} ms ({cast / keep:.3g} times)" in note
    # Three layers gain half of their time, which grows as the square of the width.
    times = next(t for t in (2, 4, 8, 16, 32) if t * t * _flops() / 2e9 > 3 * fixed)
    assert note.endswith(f"from {times} times the width it would pay ({32 * times} features into second, which has 32)")


def test_it_is_in_the_file_and_in_what_is_printed() -> None:
    plan = _planned(1e-3, loss_budget=1.0).plan
    assert "everything is kept since nothing is faster" in plan.to_toml()
    assert "note: everything is kept since nothing is faster" in explain(plan)


def test_what_would_never_pay_is_told() -> None:
    (note,) = [n for n in _planned(1e9, loss_budget=1.0).plan.evidence.notes if n.startswith("everything is kept")]
    assert note.endswith("it would not pay at 1,024 times the width either")


@pytest.mark.parametrize(
    ("fixed", "changes"),
    [
        (0.0, {"loss_budget": 1.0}),  # low precision is taken
        (0.0, {"loss_budget": 0.0}),  # faster, and held back by the loss
        (1e-3, {"loss_budget": 1.0, "minimise": "bytes"}),  # not chosen by time
        (1e-3, {"loss_budget": 1.0, "keep": ("*",)}),  # kept by rule
    ],
)
def test_nothing_is_said_where_time_is_not_the_reason(fixed: float, changes: dict[str, object]) -> None:
    notes = _planned(fixed, **changes).plan.evidence.notes
    assert not [note for note in notes if note.startswith("everything is kept")]


def test_wider_layers_have_the_same_tokens() -> None:
    shapes = {"fprop": (1024, 256, 64), "dgrad": (1024, 64, 256), "wgrad": (256, 64, 1024)}
    products = (Product(site="fc", kind="Linear", gemm=g, m=m, n=n, k=k) for g, (m, n, k) in shapes.items())
    found = widened(Inventory(products=tuple(products), traffic=(), parameters=()), 4).products
    assert [(p.m, p.n, p.k) for p in found] == [(1024, 1024, 256), (1024, 256, 1024), (1024, 256, 1024)]


def test_on_a_real_device_64_features_do_not_pay_and_many_more_do() -> None:
    shapes = {"fprop": (1024, 256, 64), "dgrad": (1024, 64, 256), "wgrad": (256, 64, 1024)}
    products = (Product(site="fc", kind="Linear", gemm=g, m=m, n=n, k=k) for g, (m, n, k) in shapes.items())
    inventory, device = Inventory(products=tuple(products), traffic=(), parameters=()), find("b200")
    group = GroupScores(name="fc", sites=("fc",), candidates={})
    low = next(c for c in request_for().candidates if c.name == "fp8")

    def ratio(times: int) -> float:
        at = widened(inventory, times)
        cast, kept = (seconds_of(group, c, device, at, compute_dtype="bf16") for c in (low, Candidate(name=KEEP)))
        return cast / kept

    assert ratio(1) > 1
    assert ratio(256) < 1


def test_what_planning_took_is_kept_in_the_file() -> None:
    plan = _planned(0.0).plan
    spent = Plan.from_toml(plan.to_toml()).evidence.spent
    assert spent is not None
    assert spent.step_seconds == 1e-3
    assert spent.other_seconds > 0
    assert spent.proof_seconds is None
    assert f"planning cost {spent.steps:.1f} steps of this model" in explain(plan)
