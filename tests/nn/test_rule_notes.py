"""Rules that do less on a model than they seem to say: told, or refused where a recipe contradicts itself."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .models import tiny_gpt

LOW, OTHER = LayerPrecision.uniform("mxfp8"), LayerPrecision.uniform("mxfp4")


def notes(model: nn.Module, *rules: Rule) -> tuple[str, ...]:
    return convert(model, Recipe(name="mine", rules=rules)).notes


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.up, self.pair = nn.LSTM(8, 8), nn.ConvTranspose1d(8, 8, 2), nn.Bilinear(8, 8, 8)
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pair(self.rnn(x)[0], x))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"match": "blocks.7.*"}, "match='blocks.7.*'"),
        ({"type": "Conv2d"}, "match='*' type='Conv2d'"),
        ({"divisible_by": 7}, "match='*' divisible_by=7"),
        ({"min_size": 999, "head": True}, "match='*' min_size=999 head=True"),
        ({"match": "head", "first_blocks": 1}, "match='head' first_blocks=1"),
        ({"match": "head", "last_blocks": 0.5, "type": "Linear"}, "match='head' type='Linear' last_blocks=0.5"),
        ({"match": "blocks.*", "embeddings": True}, "match='blocks.*' embeddings=True"),
    ],
)
def test_an_unmatched_rule_is_named_by_place_and_conditions(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match="matches no layer") as error:
        notes(tiny_gpt(), Rule(match="blocks.0.*", precision=LOW), Rule(precision=LOW, **asked))
    assert f"rule 2 of 2 ({words})" in str(error.value)


def test_a_rule_that_repeats_earlier_ones_is_told() -> None:
    (note,) = notes(
        tiny_gpt(), Rule(match="blocks.*", precision=LOW), Rule(match="*.fc1", precision=LOW), Rule(match="head")
    )
    assert "rule 2 of 3 (match='*.fc1') changes nothing" in note
    assert "rule 1 of 3 (match='blocks.*')" in note


def test_a_rule_that_earlier_ones_contradict_is_refused() -> None:
    with pytest.raises(ValueError, match="contradicts itself: its rule 3 of 3") as error:
        notes(
            tiny_gpt(),
            Rule(match="*.fc1", precision=LOW),
            Rule(match="*.fc2", precision=OTHER),
            Rule(match="*.fc?", precision=LOW),
        )
    assert "rule 2 of 3 (match='*.fc2')" in str(error.value)


def test_what_is_not_required_is_no_news() -> None:
    assert not notes(
        tiny_gpt(), Rule(match="blocks.*", precision=LOW), Rule(match="*.fc1", precision=LOW, required=False)
    )


@pytest.mark.parametrize("kind", ["LSTM", "ConvTranspose1d", "Bilinear"])
def test_casts_for_a_type_that_can_have_none_are_refused(kind: str) -> None:
    with pytest.raises(
        ValueError, match=rf"rule 1 of 1 \(match='\*' type='{kind}'\) gives casts to .* {kind} can have"
    ):
        notes(Recurrent(), Rule(type=kind, precision=LOW))
    notes(Recurrent(), Rule(type=kind))  # the compute dtype is what it has


def test_casts_for_a_path_that_can_have_none_are_refused() -> None:
    with pytest.raises(ValueError, match="rnn is a LSTM, which can have no casts"):
        notes(Recurrent(), Rule(match="rnn", precision=LOW))


def test_a_wide_rule_names_what_has_no_casts() -> None:
    (note,) = notes(Recurrent(), Rule(precision=LOW))
    assert "rnn (LSTM) and 2 more can have no casts and multiply in the compute dtype (fp32)" in note
    conversion = convert(Recurrent(), "mxfp8")
    assert any("rnn (LSTM)" in told for told in conversion.audit().notes)
    assert not any("no casts" in told for told in convert(Recurrent(), recipe("bf16", engine="emulated")).notes)


class Flat(nn.Module):
    def __init__(self, last: str) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.add_module(last, nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        for child in self.children():
            x = child(x)
        return x


def test_a_head_that_nothing_tells_is_told() -> None:
    (note,) = convert(Flat("out"), "mxfp8").notes
    assert (
        "no repeated blocks; no layer is taken for the head, and out, the last one, is a layer like any other" in note
    )
    assert "match = 'out' with precision = \"compute\"" in note


def test_a_head_by_its_name_is_told() -> None:
    (note,) = convert(Flat("classifier"), "mxfp8").notes
    assert "classifier is taken for the head, by its name" in note


def test_rules_about_blocks_without_blocks_are_told() -> None:
    assert any(
        "first_blocks, last_blocks or embeddings are about no layer" in n for n in convert(Flat("head"), "nvfp4").notes
    )


def test_a_model_with_blocks_has_no_such_note() -> None:
    assert convert(tiny_gpt(), "nvfp4").notes == ()
    assert convert(nn.Sequential(nn.Linear(8, 8)), "bf16-true").notes == ()
