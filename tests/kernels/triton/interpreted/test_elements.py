"""Elements round as the reference rounds them: every bit pattern of bf16 and fp16, edges, random fp32."""

import pytest
import torch
from torch import Tensor

from mixprec.formats import FORMATS
from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast
from tests.conformance.patterns import all_16_bit, edges, random_fp32, same

DRAW = Draw(-5, 2**33 + 7)
ELEMENTS = [name for name, fmt in FORMATS.items() if fmt.kind != "exponent" and fmt.signed]
ROUNDINGS = ["rne", "sr", "rtz"]


def patterns(element: str) -> Tensor:
    ends = [random_fp32(4096, seed=1)]
    if FORMATS[element].kind == "table":
        grid = torch.tensor(FORMATS[element].grid)
        middles = (grid[1:] + grid[:-1]) / 2
        near = torch.cat((grid, middles))
        ends += [near, near.nextafter(torch.tensor(-9.0)), near.nextafter(torch.tensor(9.0))]
    else:
        ends.append(edges(element))
    return torch.cat((all_16_bit(torch.bfloat16).float(), all_16_bit(torch.float16).float(), *ends))


@pytest.mark.usefixtures("large_programs")
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_16_bit_pattern(triton: Backend, reference: Backend, element: str, rounding: str) -> None:
    # Toward zero is the cut that the others begin with: every third pattern will do.
    x = patterns(element)[:: 3 if rounding == "rtz" else 1]
    parameters = cast_parameters(parse_cast(f"{element} {rounding} propagate"))
    assert same(triton.round(x, parameters, DRAW), reference.round(x, parameters, DRAW))


@pytest.mark.usefixtures("large_programs")
@pytest.mark.parametrize("element", ELEMENTS)
def test_saturation(triton: Backend, reference: Backend, element: str) -> None:
    x = patterns(element)[2**17 :]
    parameters = cast_parameters(parse_cast(f"{element} saturate"))
    assert same(triton.round(x, parameters, DRAW), reference.round(x, parameters, DRAW))


@pytest.mark.usefixtures("large_programs")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_values_are_widened_exactly(triton: Backend, dtype: torch.dtype) -> None:
    x = all_16_bit(dtype)
    assert same(triton.round(x, cast_parameters(parse_cast("fp32")), DRAW), x.float())


def test_shapes_and_out(triton: Backend, reference: Backend) -> None:
    parameters = cast_parameters(parse_cast("e4m3 sr"))
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(6))
    for values in (x, x.permute(2, 0, 1), x[0, 0, 0], x[:0]):
        out = torch.full(values.shape, 7.0)
        right = reference.round(values, parameters, DRAW)
        assert same(triton.round(values, parameters, DRAW), right)
        assert triton.round(values, parameters, DRAW, out=out) is out
        assert same(out, right)
    with pytest.raises(ValueError, match="memory"):
        triton.round(x, parameters, DRAW, out=x)


def test_amax(triton: Backend, reference: Backend) -> None:
    x = random_fp32(5001, seed=3)
    for values in (x, x[x.isfinite()], x[:0], x[x.isfinite()].half()[::3], torch.full((7,), 2.0**-149)):
        assert same(triton.amax(values), reference.amax(values))
