"""What `statistics` takes and refuses."""

import pytest
import torch

from mixprec import kernels


def test_other_numbers_of_dimensions_are_those_of_one_row() -> None:
    x = torch.randn(3, 5, 7, generator=torch.Generator().manual_seed(0))
    casts = ["bf16", "e4m3[tensor]"]
    cube, row = kernels.statistics(x, casts), kernels.statistics(x.reshape(1, -1), casts)
    assert torch.equal(cube.counts, row.counts)
    assert torch.equal(cube.numbers, row.numbers)
    number = kernels.statistics(torch.tensor(-3.0), ["bf16"])
    assert number.counts[:2].tolist() == [1, 0]
    assert number.numbers[:2].tolist() == [3.0, 3.0]


def test_strides_change_nothing() -> None:
    x = torch.randn(40, 33, generator=torch.Generator().manual_seed(0))
    turned, straight = kernels.statistics(x.T, ["mxfp8"]), kernels.statistics(x.T.contiguous(), ["mxfp8"])
    assert torch.equal(turned.counts, straight.counts)
    assert torch.equal(turned.numbers, straight.numbers)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_are_widened(dtype: torch.dtype) -> None:
    x = torch.randn(20, 70, generator=torch.Generator().manual_seed(0)).to(dtype)
    short, wide = kernels.statistics(x, ["mxfp4"]), kernels.statistics(x.float(), ["mxfp4"])
    assert short.dtype == dtype
    assert torch.equal(short.counts, wide.counts)
    assert torch.equal(short.numbers, wide.numbers)


def test_a_tensor_with_a_gradient_is_looked_at() -> None:
    raw = kernels.statistics(torch.ones(2, 2, requires_grad=True))
    assert raw.casts == ()
    assert not raw.numbers.requires_grad


def test_flush_to_zero_changes_nothing() -> None:
    x = torch.tensor([[1e-40, 2.0**-149, 0.0, 1.0]])
    exact = kernels.statistics(x, ["bf16", "fp32"])
    torch.set_flush_denormal(True)
    try:
        flushing = kernels.statistics(x, ["bf16", "fp32"])
    finally:
        torch.set_flush_denormal(False)
    assert exact.counts[:2].tolist() == [4, 1]
    assert exact.numbers[1].item() == 2.0**-149
    assert torch.equal(flushing.counts, exact.counts)
    assert torch.equal(flushing.numbers, exact.numbers)


def test_what_is_refused() -> None:
    cube = torch.zeros(2, 3, 4)
    with pytest.raises(ValueError, match="the cast 'mxfp8' takes a matrix, got shape \\(2, 3, 4\\)"):
        kernels.statistics(cube, ["bf16", "mxfp8"])
    with pytest.raises(TypeError, match=r"got torch\.float64"):
        kernels.statistics(cube.double())
    with pytest.raises(ValueError, match="needs random="):
        kernels.statistics(cube, ["bf16 sr"])
    with pytest.raises(ValueError, match="axis"):
        kernels.statistics(cube, axis=2)
    with pytest.raises(ValueError, match="e5m9x"):
        kernels.statistics(cube, ["e5m9x"])
    with pytest.raises(ValueError, match="the amax of a delayed scale"):
        kernels.statistics(cube, ["e4m3[tensor] delayed"], amax=torch.tensor([1.0]))
    with pytest.raises(ValueError, match="expected a finite number"):
        kernels.statistics(cube, ["e4m3[tensor] delayed"], amax=torch.tensor(float("inf")))


def test_compiled_code_is_refused_by_name() -> None:
    compiled = torch.compile(lambda x: kernels.statistics(x).counts, backend="eager", fullgraph=True)
    with pytest.raises(Exception, match=r"mixprec\.kernels\.statistics is not part of compiled code"):
        compiled(torch.zeros(2))
