"""Interleaved matrices get the numbers of casts of each on its own."""

import pytest
import torch

from mixprec import kernels
from mixprec.kernels import Backend, Draw, cast_parameters, get_backend
from mixprec.specs import parse_cast

from .patterns import same

CASTS = [
    "mxfp8 rceil",
    "mxfp4",
    "e4m3[128x128:e8m0] rceil",
    "nf4[1x64:e8m0]",
    "e2m1[4x8:e4m3] rtz",
    "e2m1[3x1:ue5m3]",
    "nvfp4",
    "nvfp4 4/6",
    "nvfp4-2d",
]
SHAPES = [(130, 70, 9), (64, 3, 9), (5, 300, 3), (33, 64, 1), (256, 128, 2), (7, 129, 27), (0, 4, 9), (4, 0, 9)]


def wide_normal(shape: tuple[int, int, int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    exponents = torch.randint(-30, 30, shape, generator=generator)
    return torch.randn(shape, generator=generator) * 2.0**exponents


def one_by_one(backend: Backend, x: torch.Tensor, cast: str, axis: int) -> torch.Tensor:
    """Without a tensor scale: each matrix alone."""
    parameters = cast_parameters(parse_cast(cast))
    made = [backend.scaled(part, parameters, axis, Draw())[0] for part in x.unbind(2)]
    return torch.stack(made, 2) if made else x.clone()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cast", [cast for cast in CASTS if not cast.startswith("nvfp4")])
def test_each_matrix_is_cast_on_its_own(backend: Backend, cast: str, axis: int) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for shape in SHAPES:
        x = wide_normal(shape)
        carrier, outer = backend.scaled_interleaved(x, parameters, axis)
        assert same(carrier, one_by_one(backend, x, cast, axis)), shape
        assert outer.item() == 1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("cast", CASTS)
def test_backends_agree(backend: Backend, cast: str, axis: int, dtype: torch.dtype) -> None:
    parameters = cast_parameters(parse_cast(cast))
    for shape in SHAPES:
        x = wide_normal(shape).to(dtype)
        if x.numel() > 300:
            x[0, 0, 0], x[1, 1, 0] = torch.nan, torch.inf if "nvfp4" not in cast else 1.0
        want = get_backend("reference").scaled_interleaved(x, parameters, axis)
        out = torch.empty(shape)
        for got in (
            backend.scaled_interleaved(x, parameters, axis),
            backend.scaled_interleaved(x, parameters, axis, out=out),
        ):
            assert all(same(a, b) for a, b in zip(got, want, strict=True)), shape
        strided = x.transpose(0, 1).contiguous().transpose(0, 1)
        assert same(backend.scaled_interleaved(strided, parameters, axis)[0], want[0])


def test_a_tensor_scale_is_that_of_all_matrices(backend: Backend) -> None:
    x = torch.tensor([[[6.0 * 448.0, 6.0]]])
    carrier, outer = backend.scaled_interleaved(x, cast_parameters(parse_cast("nvfp4")), 1)
    assert torch.equal(carrier * outer, x)


@pytest.mark.parametrize(
    "cast", ["e4m3[tensor]", "e4m3[row]", "e4m3[1x128:fp32]", "mxfp4 sr", "mxfp4 rht32", "mxfp4 quest"]
)
def test_other_casts_are_refused(cast: str) -> None:
    with pytest.raises(ValueError, match="interleaved matrices take block scales"):
        kernels.scaled_interleaved(torch.ones(2, 2, 2), cast, axis=1)


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"interleaved matrices are \[rows, columns, matrices\], got shape \(2, 2\)"):
        kernels.scaled_interleaved(torch.ones(2, 2), "mxfp4", axis=1)
    with pytest.raises(ValueError, match="axis"):
        kernels.scaled_interleaved(torch.ones(2, 2, 2), "mxfp4", axis=2)


def test_several_threads_give_the_same() -> None:
    x, before = wide_normal((260, 300, 9)), torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(kernels.scaled_interleaved(x, "nvfp4-2d", axis=0)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
