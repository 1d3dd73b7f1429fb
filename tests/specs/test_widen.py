"""Wider casts of a layer: the steps, the transform of a product, and rules about one site."""

import itertools

import pytest

from mixprec.specs import (
    OPERANDS,
    ROLES,
    WIDTHS,
    LayerPrecision,
    next_width,
    places_of,
    recipe,
    recipe_names,
    rules_at,
    widen_precision,
    width,
)


def _texts(precision):
    return {name: str(precision.operand(name)) for name in OPERANDS}


def test_a_role_alone_and_both_operands_of_a_transformed_product():
    now = recipe("nvfp4").rules[-1].precision
    eight = widen_precision(now, {"grad_output": 8}, compute_bits=16)
    assert _texts(eight) == {
        **_texts(now),
        "dgrad_grad_output": "mxfp8 rceil sr",
        "wgrad_grad_output": "mxfp8 rceil sr rht16",
    }
    sixteen = widen_precision(now, {"grad_output": 16}, compute_bits=16)
    assert _texts(sixteen) == {
        **_texts(now),
        "dgrad_grad_output": "None",
        "wgrad_grad_output": "None",
        "wgrad_input": "None",
    }


def test_bf16_is_a_step_of_its_own_under_fp32():
    now = LayerPrecision.uniform("e4m3[tensor] delayed")
    assert str(widen_precision(now, {"weight": 16}, compute_bits=32).fprop_weight) == "bf16"
    assert widen_precision(now, {"weight": 32}, compute_bits=32).fprop_weight is None
    assert widen_precision(now, {"weight": 16}, compute_bits=16).fprop_weight is None
    assert widen_precision(now, {"weight": 8}, compute_bits=16) == now


def test_one_scale_per_tensor_or_row_stays_so():
    for kind in ("tensor", "row"):
        wide = widen_precision(LayerPrecision.uniform(f"e2m1[{kind}]"), {"input": 8}, compute_bits=32)
        assert str(wide.fprop_input) == f"e4m3[{kind}]"


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != "auto"])
@pytest.mark.parametrize("bits", [16, 32])
def test_every_recipe_can_be_widened_step_by_step(name, bits):
    for precision in (rule.precision for rule in recipe(name).all_rules if rule.precision is not None):
        for roles in itertools.chain.from_iterable(itertools.combinations(ROLES, n) for n in (1, 2, 3)):
            now, steps = precision, 0
            while any(next_width(now, role, compute_bits=bits) for role in roles):
                least = {r: b for r in roles if (b := next_width(now, r, compute_bits=bits)) is not None}
                now, steps = widen_precision(now, least, compute_bits=bits), steps + 1
                assert steps <= len(WIDTHS)
            left = [now.operand(n) for n in OPERANDS if n.partition("_")[2] in roles]
            assert all(cast is None or cast.element == "fp32" or bits == 16 for cast in left)


def test_names_that_nobody_knows():
    with pytest.raises(ValueError, match=r"width 'fp9'.*fp8"):
        width("fp9")
    with pytest.raises(ValueError, match="role 'weights'"):
        next_width(LayerPrecision(), "weights", compute_bits=32)


def test_rules_about_one_site():
    assert places_of("a.b.pv") == [("a.b.pv", None), ("a.b", "pv")]
    assert places_of("") == places_of("<model>") == []
    (rule,) = rules_at("blocks[0].fc", None)
    assert rule.match == "blocks[[]0].fc"
    assert rule.required
