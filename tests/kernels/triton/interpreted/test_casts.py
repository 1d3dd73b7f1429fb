"""Scaled casts equal the reference's, carrier, scales and codes: every kind of scale, on extreme numbers too."""

from collections.abc import Iterable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mixprec.kernels import Backend, CastParameters, Draw, cast_parameters
from mixprec.specs import parse_cast
from tests.conformance.patterns import same
from tests.conformance.test_scaled import CASTS, MATRICES

DRAW = Draw(5, 11, 2**62 + 1)
# The other matrices of the conformance tests are run by hand; these hold what is peculiar in each.
CHOSEN = ["wide", "extremes", "tiny", "faults"]


def shares_nothing(parameters: CastParameters) -> bool:
    """Whether a row's numbers do not depend on those of rows far from it."""
    return parameters.scaling in ("none", "row") or (parameters.scaling == "block" and not parameters.two_level)


def piled(matrices: Iterable[Tensor], apart: int) -> Tensor:
    """All below one another, each from a multiple of so many rows on."""
    padded = [F.pad(x, (0, 70 - x.shape[1], 0, -x.shape[0] % apart)) for x in matrices]
    return torch.cat(padded)[: -(-MATRICES[CHOSEN[-1]]().shape[0] % apart) or None]


def matrices(parameters: CastParameters, axis: int) -> dict[str, Tensor]:
    """The chosen ones: one by one, or in one pile where no scale reaches from one into another, for a kernel takes its
    time by the launch here.
    """
    chosen = {name: MATRICES[name]() for name in CHOSEN}
    if not shares_nothing(parameters):
        return chosen
    pile = piled(chosen.values(), parameters.outer)
    return {"pile": pile if axis else pile.T}


@pytest.mark.usefixtures("large_programs")
@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("cast", CASTS)
def test_equal_to_the_reference(triton: Backend, reference: Backend, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for name, x in matrices(parameters, axis).items():
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
