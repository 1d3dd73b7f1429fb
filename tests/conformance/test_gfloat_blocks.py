"""MX blocks equal those of gfloat, whose scale is the specification's (floor)."""

import gfloat
import gfloat.formats as oracle_formats
import numpy as np
import pytest
import torch
from torch import Tensor

from mixprec.kernels import Backend, Draw, cast_parameters
from mixprec.specs import parse_cast

from .tensors import MATRICES

BLOCKS = {
    "mxfp8": oracle_formats.format_info_mxfp8_e4m3,
    "mxfp8-e5m2": oracle_formats.format_info_mxfp8_e5m2,
    "mxfp6": oracle_formats.format_info_mxfp6_e2m3,
    "mxfp6-e3m2": oracle_formats.format_info_mxfp6_e3m2,
    "mxfp4": oracle_formats.format_info_mxfp4_e2m1,
    "mxint8": oracle_formats.format_info_mxint8,
}


def of_gfloat(x: Tensor, name: str) -> Tensor:
    blocks = x.double().reshape(-1, 32).numpy()
    made = [gfloat.quantize_block(BLOCKS[name], block, gfloat.compute_scale_amax) for block in blocks]
    return torch.from_numpy(np.stack(made)).reshape(x.shape).float()


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_those_of_gfloat(backend: Backend, name: str, matrix: str) -> None:
    """The difference: gfloat's INT8 goes down to -2, here it ends at -127/64, as above."""
    x = MATRICES[matrix]()[::8]
    carrier, _ = backend.scaled(x, cast_parameters(parse_cast(name)), 1, Draw())
    right = of_gfloat(x, name)
    if name == "mxint8":
        lowest = -(2.0 ** torch.frexp(x.reshape(8, -1, 32).abs().amax(2))[1].float().repeat_interleave(32, 1))
        at_end = right == lowest
        assert torch.equal(carrier[at_end], right[at_end] * (127 / 128))
        right = torch.where(at_end, carrier, right)
    assert torch.equal(carrier, right)
