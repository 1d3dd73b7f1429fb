"""Layer precision: the six operands."""

from __future__ import annotations

import pytest

from mixprec.specs import OPERANDS, Accumulator, LayerPrecision, parse_cast


def test_roles_go_into_both_of_their_products():
    precision = LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[row]", grad_output="e5m2[tensor]")
    assert {name: str(precision.operand(name)) for name in OPERANDS} == {
        "fprop_input": "e4m3[tensor]",
        "fprop_weight": "e4m3[row]",
        "dgrad_grad_output": "e5m2[tensor]",
        "dgrad_weight": "e4m3[row]",
        "wgrad_grad_output": "e5m2[tensor]",
        "wgrad_input": "e4m3[tensor]",
    }
    assert not precision.is_uniform


def test_passes_give_their_cast_to_both_operands_of_a_product():
    precision = LayerPrecision.by_pass(forward="mxfp4", backward=parse_cast("mxfp4 sr"))
    assert precision == LayerPrecision(
        **{name: parse_cast("mxfp4" if name.startswith("fprop") else "mxfp4 sr") for name in OPERANDS}
    )
    assert LayerPrecision.by_pass(backward="mxfp4 sr").fprop_input is None
    assert LayerPrecision.by_pass(forward="mxfp4").wgrad_input is None
    sums = Accumulator(mantissa_bits=14)
    assert LayerPrecision.by_pass(accumulator=sums).accumulator == sums


def test_roles_left_out_stay_in_the_compute_dtype():
    precision = LayerPrecision.of(weight=parse_cast("mxfp8"))
    assert precision.fprop_input is None
    assert precision.wgrad_grad_output is None
    assert LayerPrecision().is_uniform


def test_uniform():
    precision = LayerPrecision.uniform("mxfp8 rceil")
    assert precision == LayerPrecision.uniform(parse_cast("mxfp8 rceil"))
    assert precision.is_uniform


def test_operands_of_a_product_share_the_transform():
    rotated = parse_cast("nvfp4 rht16")
    LayerPrecision(wgrad_grad_output=rotated, wgrad_input=rotated)
    for other in (None, parse_cast("nvfp4"), parse_cast("nvfp4 ht16"), parse_cast("nvfp4 rht32")):
        with pytest.raises(ValueError, match=r"wgrad_grad_output is 'nvfp4 rht16' and wgrad_input is .*same transform"):
            LayerPrecision(wgrad_grad_output=rotated, wgrad_input=other)


def test_other_outputs_are_refused():
    with pytest.raises(ValueError, match="output is 'fp8', expected 'compute'"):
        LayerPrecision(output="fp8")  # type: ignore[arg-type]
