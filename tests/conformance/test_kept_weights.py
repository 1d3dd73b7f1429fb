"""Ways to keep a weight against float64, bit patterns and the casts of the kernels."""

import pytest
import torch

from mixprec import kernels
from mixprec.kernels import Draw, StoredWeight, load_weight, store_weight

from .patterns import all_16_bit, random_fp32
from .slots import EXTRAS, same_bits, wide


def empty(kind: str, count: int, dtype: torch.dtype = torch.bfloat16) -> StoredWeight:
    extra = torch.zeros(count, dtype=EXTRAS[kind]) if kind in EXTRAS else None
    return StoredWeight(kind, torch.zeros(count, dtype=dtype), extra)  # type: ignore[arg-type]


def test_split_is_exact():
    values = torch.cat((random_fp32(2**18, seed=1), all_16_bit(torch.bfloat16).float()))
    ends = torch.tensor([0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x00008000, 0x3F808000, 0x3F807FFF], dtype=torch.int32)
    values = torch.cat((values, ends.view(torch.float32), -ends.view(torch.float32)))
    kept = empty("split", len(values))
    store_weight(kept, values)
    assert same_bits(load_weight(kept), values)


def test_a_split_weight_that_was_written_over_is_read_alone():
    weight, rests = all_16_bit(torch.bfloat16), torch.tensor([-(2**15), -300, -1, 0, 1, 2**15 - 1])
    stored = StoredWeight("split", weight.repeat(6), rests.to(torch.int16).repeat_interleave(len(weight)).contiguous())
    assert stored.extra is not None
    got, alone = load_weight(stored), stored.weight.float()
    bits = (stored.weight.view(torch.int16).long() * 2**16 + stored.extra.long()) % 2**32
    is_nan = bits % 2**31 > 0x7F800000
    assert same_bits(got[is_nan], alone[is_nan])
    assert torch.equal(got[~is_nan].view(torch.int32).long() % 2**32, bits[~is_nan])
    again = empty("split", len(got))
    store_weight(again, got)
    numbers = ~alone.isnan()
    assert same_bits(again.weight[numbers], stored.weight[numbers]), "what is read is stored as the weight"
    assert torch.equal(got[alone == 0].isnan(), torch.zeros_like(got[alone == 0], dtype=torch.bool))


def test_the_weight_of_a_split_is_the_nearest():
    values = torch.tensor([1 + 2**-8, -1 - 2**-8, 1 + 2**-8 - 2**-23, 1 + 3 * 2**-8, 3.4028234e38, float("nan")])
    kept = empty("split", len(values))
    store_weight(kept, values)
    # Ties go away from zero: the remainder of one is -2^15.
    assert kept.weight[:5].tolist() == [1 + 2**-7, -1 - 2**-7, 1.0, 1 + 2**-6, float("inf")]
    assert kept.extra is not None
    assert kept.extra.tolist()[:2] == [-(2**15)] * 2
    assert (kept.weight[5].view(torch.int16).item(), kept.extra[5].item()) == (0x7FC0, 0)


@pytest.mark.parametrize(
    ("kind", "dtype"), [("plain", torch.float32), ("master", torch.float16), ("master", torch.bfloat16)]
)
def test_exact_kinds_come_back(kind: str, dtype: torch.dtype):
    values = random_fp32(2**16, seed=2)
    kept = empty(kind, len(values), dtype)
    store_weight(kept, values)
    assert same_bits(load_weight(kept), values)
    finite = values.isfinite()
    assert torch.equal(kept.weight[finite], values.to(dtype)[finite])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_are_read_exactly(dtype: torch.dtype):
    weight = all_16_bit(dtype)
    assert same_bits(load_weight(StoredWeight("plain", weight)), weight.float())
    again = empty("plain", len(weight), dtype)
    store_weight(again, weight.float())
    numbers = ~weight.isnan()
    assert torch.equal(again.weight.view(torch.int16)[numbers], weight.view(torch.int16)[numbers])


def test_compensation_against_float64():
    values = wide((2**16,), seed=3)
    kept = empty("kahan", len(values))
    store_weight(kept, values)
    assert kept.extra is not None
    exact = values.double() - kept.weight.double()
    assert torch.equal(kept.extra, exact.to(torch.bfloat16)), "the compensation is what the weight lost, rounded once"
    error = (load_weight(kept).double() - values.double()).abs()
    normal = values.abs() > 2.0**-100
    assert (error[normal] <= values[normal].double().abs() * 2.0**-16).all()


def test_compensation_of_what_is_beyond_the_range():
    kept = empty("kahan", 3)
    store_weight(kept, torch.tensor([3.4028234e38, -float("inf"), float("nan")]))
    assert load_weight(kept).tolist()[:2] == [float("inf"), -float("inf")]
    assert load_weight(kept)[2].isnan()


def test_stochastic_weights_are_the_kernels_cast():
    values = torch.cat((random_fp32(2**16 + 3, seed=4), wide((1000,), seed=5)))
    kept = empty("stochastic", len(values))
    store_weight(kept, values, Draw(11, -3))
    cast = kernels.round(values, "bf16 sr", random=torch.tensor([11, -3]))
    assert same_bits(kept.weight.float(), cast)


def test_stochastic_weights_are_right_on_average():
    values = torch.full((2**16,), 1.0 + 2**-7 * 0.3)
    kept = empty("stochastic", len(values))
    store_weight(kept, values, Draw(5, 0))
    share = ((kept.weight.double() - 1.0) / 2**-7).mean().item()
    # Four standard deviations of a mean of 2^16 draws.
    assert abs(share - 0.3) < 4 * (0.3 * 0.7 / 2**16) ** 0.5
