"""The search against trying every choice; what it promises of order, budgets and errors."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixprec.planner import KEEP, Option, search

from ._instances import QUANTITIES, every_choice, instances

SAME = 1e-5


@settings(max_examples=60, deadline=None)
@given(instances(), st.sampled_from(QUANTITIES), st.floats(0, 12), st.one_of(st.none(), st.integers(0, 30)))
def test_as_good_as_the_best_of_every_choice(options, minimise, loss, most):
    limits = {"loss": loss} | ({} if most is None else {"bytes": most})
    sums = list(every_choice(options, limits))
    if not sums:
        with pytest.raises(ValueError, match=r"no choice has|exclude one another"):
            search(options, minimise=minimise, limits=limits)
        return
    choice = search(options, minimise=minimise, limits=limits)
    assert choice.of(minimise) == pytest.approx(min(s[minimise] for s in sums), rel=SAME, abs=SAME)
    assert all(choice.of(name) <= largest for name, largest in limits.items())


@settings(max_examples=40, deadline=None)
@given(instances(), st.randoms(use_true_random=False), st.floats(0, 10))
def test_no_order_of_the_options_changes_the_choice(options, order, loss):
    shuffled = options.copy()
    order.shuffle(shuffled)
    first, second = (search(some, limits={"loss": loss}) for some in (options, shuffled))
    assert dict(first.candidates) == dict(second.candidates)
    assert (first.seconds, first.loss, first.bytes) == (second.seconds, second.loss, second.bytes)


@settings(max_examples=40, deadline=None)
@given(instances(), st.floats(0, 8), st.floats(0, 8))
def test_a_larger_budget_never_gives_a_slower_plan(options, loss, more):
    narrow, wide = (search(options, limits={"loss": budget}) for budget in (loss, loss + more))
    assert wide.seconds <= narrow.seconds * (1 + SAME)


def test_equally_fast_choices_are_told_apart_by_their_loss():
    options = [Option(group=g, candidate=KEEP, loss=0, seconds=2, bytes=1) for g in "abc"]
    options += [
        Option(group=g, candidate="low", loss=loss, seconds=1, bytes=1)
        for g, loss in zip("abc", (3, 1, 2), strict=True)
    ]
    assert dict(search(options, limits={"loss": 3.5}).candidates) == {"a": KEEP, "b": "low", "c": "low"}


def test_limits_bind_by_name():
    options = [
        Option(group="a", candidate=KEEP, loss=0, seconds=4, bytes=1),
        Option(group="a", candidate="low", loss=2, seconds=1, bytes=9),
    ]
    assert search(options, limits={"loss": 3, "bytes": 9}).binding == ()
    assert search(options, limits={"loss": 1, "bytes": 9}).binding == ("loss",)
    assert search(options, limits={"loss": 1, "bytes": 2}).binding == ("loss", "bytes")


def test_two_hundred_sites_in_under_a_second():
    numbers = random.Random(7)
    options: list[Option] = []
    for group in range(200):
        size = numbers.random()
        for step, name in enumerate((KEEP, "fp8", "mxfp8", "nvfp4", "mxfp4")):
            loss = 0.0 if name == KEEP else 4**step * math.exp(numbers.gauss(0, 1)) * 1e-7
            options.append(
                Option(group=f"g{group}", candidate=name, loss=loss, seconds=size / (1 + step), bytes=100 - step)
            )
    search(options[:5], limits={"loss": 1e-9})  # SciPy is loaded once
    largest = math.fsum(option.loss for option in options if option.candidate == "mxfp4")
    started = time.process_time()
    choice = search(options, limits={"loss": largest / 5})
    assert time.process_time() - started < 1
    assert 0.19 * largest < choice.loss <= largest / 5


def test_an_impossible_budget_says_the_least_and_what_is_in_the_way():
    options = [
        Option(group="head", candidate=KEEP, loss=0, seconds=1, bytes=1, barred="rule 'head' allows low alone"),
        Option(group="head", candidate="low", loss=0.5, seconds=1, bytes=1),
        Option(group="body", candidate=KEEP, loss=0, seconds=1, bytes=1),
    ]
    with pytest.raises(
        ValueError, match=r"loss at most 0\.1: the least possible is 0\.5; in the way: head may not have"
    ):
        search(options, limits={"loss": 0.1})
    with pytest.raises(ValueError, match=r"seconds at most 1: the least possible is 2, of which head alone has 1"):
        search(options, limits={"seconds": 1})


def test_limits_that_exclude_one_another_are_told_with_what_is_possible():
    options = [
        Option(group="a", candidate=KEEP, loss=0, seconds=4, bytes=1),
        Option(group="a", candidate="low", loss=2, seconds=1, bytes=1),
    ]
    with pytest.raises(ValueError, match="with seconds at most 2, the least possible loss is 2, asked for was 1"):
        search(options, minimise="bytes", limits={"loss": 1, "seconds": 2})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"limits": {"los": 1}}, "did you mean 'loss'"),
        ({"limits": {"loss": math.nan}}, "expected a number"),
        ({"limits": {"loss": -1}}, "expected a number"),
        ({"minimise": "time"}, "unknown quantity"),
    ],
)
def test_refuses_what_it_cannot_read(change, told):
    with pytest.raises(ValueError, match=told):
        search([Option(group="a", candidate=KEEP, loss=0, seconds=1, bytes=1)], **change)


def test_refuses_options_that_are_none():
    kept = Option(group="a", candidate=KEEP, loss=0, seconds=1, bytes=1)
    with pytest.raises(ValueError, match="got no options"):
        search([])
    with pytest.raises(ValueError, match="candidate keep twice"):
        search([kept, kept])
    with pytest.raises(ValueError, match=r"group a may have none of its candidates \(keep: it is dead\)"):
        search([replace(kept, barred="it is dead")])
    with pytest.raises(ValueError, match="loss=nan"):
        replace(kept, loss=math.nan)
