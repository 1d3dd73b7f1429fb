"""Whether the numbers of a device's backend are those of the reference on the CPU, bit for bit."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mixprec.kernels import FIXED_SIGNS, Backend, Draw, SignKey, Sums, cast_parameters, default_backend, get_backend
from mixprec.specs import parse_cast

DRAW = Draw(5, 2**33 + 7, 2**62 + 1)
UNSCALED = ("fp32", "bf16", "fp16 sr", "e4m3", "e5m2 sr propagate", "e4m3fnuz", "e2m1 rtz", "int8", "nf4 sr", "int4")
SCALED = (
    "e4m3[tensor]",
    "e5m2[tensor:e8m0] ceil sr",
    "e4m3[row]",
    "mxfp8 rceil",
    "mxfp4 x3/4 sr rht64-fresh",
    "nvfp4 sr rht16",
    "nvfp4-2d",
    "nvfp4 4/6",
    "mxfp4 quest ht32",
    "e4m3[1x128:fp32]",
    "nf4[1x64:fp32]",
)
# Every kind of cast is compiled for each axis, which takes most of the time.
ALONG_COLUMNS = ("e4m3[row]", "mxfp8 rceil", "mxfp4 x3/4 sr rht64-fresh", "nvfp4 sr rht16", "nvfp4-2d")
SUMS = Sums(mantissa_bits=13, rounding="nearest-even", promote_every=32)


def compare(device: torch.device, quick: bool) -> list[dict[str, object]]:
    """One row for each operation: how many numbers were compared, and how many differ."""
    ours, truth = default_backend(device.type), get_backend("reference")
    rows: list[dict[str, object]] = []
    for name, call in _calls(UNSCALED[::4] if quick else UNSCALED, SCALED[::4] if quick else SCALED):
        compared = different = 0
        right = call(truth, torch.device("cpu"))
        got = call(ours, device)
        for a, b in zip(got, right, strict=True):
            compared += b.numel()
            different += _different(a.cpu(), b)
        rows.append({"name": name, "compared": compared, "different": different})
        print(f"{name:32}{compared:12,} numbers{different:10,} differ")
    return rows


def _calls(unscaled: tuple[str, ...], scaled: tuple[str, ...]) -> Iterator[tuple[str, "_Call"]]:
    for cast in unscaled:
        yield cast, _Round(cast)
    for cast in scaled:
        for axis in (1, 0) if cast in ALONG_COLUMNS else (1,):
            yield f"{cast}, axis {axis}", _Scaled(cast, axis)
    yield "the other operations", _Others()


class _Call:
    """An operation on the tensors of a device, by a backend: the results."""

    def __call__(self, backend: Backend, device: torch.device) -> list[Tensor]:
        raise NotImplementedError


class _Round(_Call):
    """Every bit pattern of bf16 and fp16, and random ones of fp32."""

    def __init__(self, cast: str) -> None:
        self._parameters = cast_parameters(parse_cast(cast))

    def __call__(self, backend: Backend, device: torch.device) -> list[Tensor]:
        return [backend.round(x.to(device), self._parameters, DRAW) for x in _patterns()]


class _Scaled(_Call):
    """Carriers, codes, scales and what codes give back, of numbers in many binades, and with faults among them."""

    def __init__(self, cast: str, axis: int) -> None:
        self._parameters, self._axis = cast_parameters(parse_cast(cast)), axis

    def __call__(self, backend: Backend, device: torch.device) -> list[Tensor]:
        results: list[Tensor] = []
        for x in (_wide(), _faulty()):
            carrier, outer = backend.scaled(x.to(device), self._parameters, self._axis, DRAW)
            codes = backend.quantize(x.to(device), self._parameters, self._axis, DRAW)
            results += [carrier, outer, *codes]
            results.append(backend.dequantize(*codes, self._parameters, carrier.shape, self._axis))
        return results


class _Others(_Call):
    """Delayed scales, largest magnitudes, transforms, products with narrow sums."""

    def __call__(self, backend: Backend, device: torch.device) -> list[Tensor]:
        x = _wide().to(device)
        delayed = cast_parameters(parse_cast("e4m3[tensor] delayed"))
        results = [backend.amax(x), backend.amax(_faulty().to(device))]
        for given in (0.0, 3.0):
            results += backend.delayed(x, delayed, DRAW, torch.tensor(given, device=device))
        results += [backend.hadamard(x, 128, FIXED_SIGNS, axis, False) for axis in (0, 1)]
        results.append(backend.hadamard(x.T, 16, SignKey(-1, 2**62), 1, True))
        results.append(backend.narrow_product(x[:60], x[:50].T, SUMS))
        return results


def _patterns() -> list[Tensor]:
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    generator = torch.Generator().manual_seed(1)
    random = torch.randint(-(2**31), 2**31, (2**17,), generator=generator).int()
    return [bits.view(torch.bfloat16), bits.view(torch.float16), random.view(torch.float32)]


def _wide() -> Tensor:
    generator = torch.Generator().manual_seed(2)
    binades = torch.randint(-30, 30, (129, 22), generator=generator).repeat_interleave(16, 1)[:, :333]
    return torch.randn(129, 333, generator=generator) * 2.0**binades


def _faulty() -> Tensor:
    """Subnormals, both ends of fp32, zeros of both signs, infinities and a NaN."""
    x = _wide()[:40]
    x[1] = torch.arange(333) * 2.0**-149
    x[2] = 3.4e38
    x[3] = -0.0
    x[4:6] = 0.0
    for row, fault in ((7, float("nan")), (9, float("inf")), (30, float("-inf"))):
        x[row, row] = fault
    return x


def _different(a: Tensor, b: Tensor) -> int:
    if a.shape != b.shape or a.dtype != b.dtype:
        return max(a.numel(), b.numel(), 1)
    if a.dtype != torch.float32:
        return int((a != b).sum())
    return int(((a.view(torch.int32) != b.view(torch.int32)) & ~(a.isnan() & b.isnan())).sum())
