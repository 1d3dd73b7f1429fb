"""Counts and sums over a tensor, whatever number of elements is looked at at a time."""

import dataclasses
import math
import os
import subprocess
import sys

import pytest
import torch

from mixprec.specs import parse_cast
from mixprec.tensors import error, tree_sum
from mixprec.tensors._sums import RunningSum
from mixprec.tensors._tally import Tally, tally

CASTS = (
    "bf16",
    "e4m3",
    "mxfp8",
    "nvfp4",
    "nvfp4-2d",
    "mxfp4 rht32",
    "mxfp4 sr rht128",
    "e4m3[tensor]",
    "e5m2[row]",
    "e5m2[row] sr",
    "e2m1[5x7:e8m0]",
    "bf16 sr",
)

# (cast, bits, mean squared error, SNR, largest relative error, flushed, saturated) of `wide_range`, from a form that
# holds the whole tensor in fp64 at once.
FIGURES = [
    ("bf16", 16.0, 45.12661849631738, 56.62491664555617, 0.0038910505836575876, 0.0, 0.0),
    ("fp16", 16.0, 0.7181526866977328, 74.60707666446923, 0.0004880429477794046, 0.0, 0.0),
    ("mxfp8", 8.252025202520253, 48439.54775542451, 26.31724376209886, 1.0, 0.19576217583807717, 0.010168584426010168),
    ("nvfp4 rht16", 4.537232101588537, 187520.0748318903, 20.438766883624844, 106244353.0, 0.023214285714285715, 0.0),
    (
        "mxfp4 sr rht32",
        4.284428442844284,
        481639.8924593719,
        16.34202005257553,
        759250113.0,
        0.043484555984555986,
        0.015661196911196912,
    ),
    ("e4m3[tensor]", 8.000778456224001, 13414.190468657373, 31.893599873962554, 1.0, 0.22376295431323895, 0.0),
    (
        "e2m1[5x7:e8m0]",
        4.251149439268251,
        452373.46135385573,
        16.614273370461824,
        1.0,
        0.8014158517004817,
        0.012285012285012284,
    ),
    ("e5m2[row]", 8.028802880288028, 40772.37570403446, 27.065584385711325, 1.0, 7.298204641658152e-05, 0.0),
]


def wide_range() -> torch.Tensor:
    words = torch.arange(37 * 1111) * 2654435761 % 2**32
    x = ((words % 65536) - 32768).float() * 2.0 ** -(words // 65536 % 23).float()
    return x.reshape(37, 1111)


@pytest.mark.parametrize("figures", FIGURES, ids=lambda figures: figures[0])
def test_figures_keep_their_bits(figures: tuple[object, ...]) -> None:
    found = dataclasses.astuple(error(wide_range(), [str(figures[0])]).rows[0])
    assert found[3] == pytest.approx(figures[3], rel=1e-15)  # a logarithm is the C library's
    assert found[:3] + found[4:] == figures[:3] + figures[4:]


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pieces_give_the_numbers_of_the_whole(cast: str, dtype: torch.dtype) -> None:
    x = wide_range().to(dtype)
    whole = tally(x, parse_cast(cast), at_a_time=x.numel())
    for at_a_time in (1, 5000, 30_000):
        assert tally(x, parse_cast(cast), at_a_time=at_a_time) == whole


@pytest.mark.parametrize("cast", CASTS)
def test_tallies_add_up_over_tensors(cast: str) -> None:
    x = wide_range()
    first, second = tally(x[:10], parse_cast(cast)), tally(x[10:], parse_cast(cast))
    both = first + second
    assert both.elements == x.numel()
    assert both.noise == first.noise + second.noise
    assert both.max_relative_error == max(first.max_relative_error, second.max_relative_error)
    names = [field.name for field in dataclasses.fields(Tally) if field.type == "int"]
    assert all(getattr(both, name) == getattr(first, name) + getattr(second, name) for name in names)
    assert len(names) == 6


def test_a_relative_error_that_is_no_number_stays_one() -> None:
    finite, spoilt = (tally(torch.tensor(x), parse_cast("mxfp4")) for x in ([1.0, 0.3], [1.0, math.nan]))
    assert math.isnan((finite + spoilt).max_relative_error)
    assert math.isnan((spoilt + finite).max_relative_error)


@pytest.mark.parametrize("cuts", [(0,), (1, 1023, 1024, 1025), (700,) * 40, (65536, 3)])
def test_a_running_sum_is_the_sum_of_the_whole(cuts: tuple[int, ...]) -> None:
    x = torch.randn(sum(cuts), generator=torch.Generator().manual_seed(0))
    total = RunningSum()
    for piece in x.split(cuts):
        total.add(piece)
    assert total.value() == tree_sum(x).item()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("cast", "bytes_per_element"), [("mxfp8", 0), ("e4m3[tensor]", 5)])
def test_memory_does_not_grow_with_fp64_forms_of_the_tensor(cast: str, bytes_per_element: int) -> None:
    program = f"""
import torch
from pathlib import Path
from mixprec.tensors import error
def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmHWM")) * 1024
x = torch.ones(4096, 4096)
error(x[:1024], ["{cast}"])
before = peak()
error(x, ["{cast}"])
print(peak() - before)
"""
    # What is freed goes back to the system at once, so that a peak is what was needed.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    # What four times the elements add; their fp64 forms would be 96 MB each.
    assert int(done.stdout) < 0.75 * 2**24 * bytes_per_element + 24e6
