"""Scaled casts equal the reference's, carrier, scales and codes: every kind of scale, on extreme numbers too."""

import pytest

from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast
from tests.conformance.patterns import same
from tests.conformance.test_scaled import CASTS, MATRICES

DRAW = Draw(5, 11, 2**62 + 1)
# The other matrices of the conformance tests are run by hand; these hold what is peculiar in each.
CHOSEN = ["wide", "extremes", "tiny", "faults"]


@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
def test_equal_to_the_reference(triton: Backend, reference: Backend, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for name in CHOSEN:
        x = MATRICES[name]()
        carrier, outer = reference.scaled(x, parameters, axis, DRAW)
        got = triton.scaled(x, parameters, axis, DRAW)
        assert same(got[0], carrier), name
        assert same(got[1], outer), name
        right = reference.quantize(x, parameters, axis, DRAW)
        codes = triton.quantize(x, parameters, axis, DRAW)
        assert all(a.equal(b) for a, b in zip(codes[:2], right[:2], strict=True)), name
        assert same(codes[2], outer), name
        for factor in (outer, None):
            stored = (*right[:2], factor, parameters, carrier.shape, axis)
            assert same(triton.dequantize(*stored), reference.dequantize(*stored)), name
