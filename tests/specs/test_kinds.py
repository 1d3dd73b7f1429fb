"""What has the wrong kind is refused where it is given, in words: what was got, what was expected."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from mixprec.specs import (
    Accumulator,
    Cast,
    Delayed,
    Granularity,
    LayerPrecision,
    LossScale,
    Phase,
    Recipe,
    Rule,
    load_recipe,
    parse_accumulator,
    parse_cast,
    recipe,
)


def cast_of(**parts: Any) -> Cast:
    return Cast(**({"element": "e4m3", "granularity": Granularity("tensor"), "scale": "fp32"} | parts))


def recipe_of(**parts: Any) -> Recipe:
    return Recipe(**({"name": "mine"} | parts))


@pytest.mark.parametrize(
    ("make", "parts", "message"),
    [
        (cast_of, {"element": 4}, r"cast: element is 4 \(int\), expected str"),
        (cast_of, {"granularity": "tensor"}, r"cast: granularity is 'tensor' \(str\), expected Granularity"),
        (cast_of, {"scale": 3}, r"cast: scale is 3 \(int\), expected str or None"),
        (cast_of, {"tensor_scale": 3}, r"cast: tensor_scale is 3 \(int\), expected str or None"),
        (cast_of, {"ratio": 0.75}, r"cast: ratio is 0.75 \(float\), expected Fraction"),
        (cast_of, {"ratio": "3/4"}, r"cast: ratio is '3/4' \(str\), expected Fraction"),
        (cast_of, {"delayed": "delayed"}, r"cast: delayed is 'delayed' \(str\), expected Delayed or None"),
        (cast_of, {"transform": 16.0}, r"cast: transform is 16.0 \(float\), expected int"),
        (cast_of, {"transform": True}, r"cast: transform is True \(bool\), expected int"),
        (Granularity, {"kind": "block", "outer": "1", "reduction": 16}, r"granularity: outer is '1' \(str\)"),
        (Granularity, {"kind": "block", "outer": 1, "reduction": 16.5}, r"granularity: reduction is 16.5 \(float\)"),
        (Delayed, {"history": 1.5}, r"delayed scaling: history is 1.5 \(float\), expected int"),
        (Delayed, {"margin": "a"}, r"delayed scaling: margin is 'a' \(str\), expected int"),
        (
            LayerPrecision,
            {"fprop_input": "mxfp8"},
            r"layer precision: fprop_input is 'mxfp8' \(str\), expected Cast or",
        ),
        (
            LayerPrecision,
            {"accumulator": "m14 rtz"},
            r"layer precision: accumulator is .*, expected Accumulator or None",
        ),
        (LayerPrecision.of, {"input": 3}, r"layer precision: fprop_input is 3 \(int\), expected Cast or None"),
        (LossScale, {"initial": "a"}, r"loss scale: initial is 'a' \(str\), expected a number"),
        (LossScale, {"kind": "static", "initial": True}, r"loss scale: initial is True \(bool\), expected a number"),
        (LossScale, {"interval": 1.5}, r"loss scale: interval is 1.5 \(float\), expected int"),
        (Phase, {"from_step": 2, "rules": [Rule()]}, r"phase: rules is \[Rule.*, expected a tuple of Rule"),
        (recipe_of, {"name": 3}, r"recipe: name is 3 \(int\), expected str"),
        (recipe_of, {"reason": None}, r"recipe: reason is None \(NoneType\), expected str"),
        (recipe_of, {"rules": (Rule(precision="mxfp8"),)}, r"rule: precision is 'mxfp8' \(str\), expected LayerPrec"),  # type: ignore[arg-type]
        (recipe_of, {"rules": (Rule(head="yes"),)}, r"rule: head is 'yes' \(str\), expected bool"),  # type: ignore[arg-type]
        (recipe_of, {"rules": (Rule(match=3),)}, r"rule: match is 3 \(int\), expected str"),  # type: ignore[arg-type]
        (Phase, {"from_step": 2, "rules": (Rule(required=0),)}, r"rule: required is 0 \(int\), expected bool"),  # type: ignore[arg-type]
    ],
)
def test_parts_of_the_wrong_kind_are_refused(make: Callable[..., object], parts: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=message):
        make(**parts)


@pytest.mark.parametrize("given", [3, None, b"mxfp8", ["mxfp8"]])
@pytest.mark.parametrize("read", [parse_cast, parse_accumulator, Recipe.from_toml])
def test_only_text_is_read(read: Callable[[object], object], given: object):
    with pytest.raises(TypeError, match=r"expected a text, such as"):
        read(given)


def test_recipes_are_named_by_texts():
    with pytest.raises(TypeError, match=r"recipe is None \(NoneType\), expected a name or the path of a TOML file"):
        load_recipe(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown recipe '': expected one of auto"):
        load_recipe("")
    with pytest.raises(ValueError, match=r"unknown recipe '\['a'\]'"):
        recipe(["a"])  # type: ignore[arg-type]


def test_what_is_right_passes():
    assert str(cast_of(ratio=Fraction(3, 4))) == "e4m3[tensor] x3/4"
    assert LossScale(kind="static", initial=1024).initial == 1024
    assert LayerPrecision(accumulator=Accumulator(mantissa_bits=14)).accumulator is not None


@pytest.mark.parametrize("history", [0, -1, 2**20 + 1, 10**14])
def test_histories_fit_into_memory(history: int):
    with pytest.raises(ValueError, match=f"history={history}, margin=0: expected 1 to 1048576, and 0 to 16"):
        Delayed(history=history)


@pytest.mark.parametrize(
    "text", ["delayed(16,)", "delayed(,)", "delayed(16,,1)", "delayed(16,recent,1,1)", "delayed(1.5)"]
)
def test_delayed_forms_that_cannot_be_read_show_one_that_can(text: str):
    with pytest.raises(ValueError, match=r"'delayed.*' cannot be read: expected delayed\(history,algorithm,margin\)"):
        parse_cast(f"e4m3[tensor] {text}")


@pytest.mark.parametrize(
    ("step", "total"), [(-1, None), (True, None), (1.5, None), (0, 0), (0, -5), (0, 1.5), (0, "9")]
)
def test_a_recipe_holds_at_whole_steps(step: Any, total: Any):
    late = Recipe(name="late", phases=(Phase(last=0.5),))
    with pytest.raises((TypeError, ValueError), match=r"(step|total_steps) is .*, expected"):
        late.at(step, total)
