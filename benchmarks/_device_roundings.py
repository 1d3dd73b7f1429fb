"""Roundings on a device, as multiples of a copy of the same fp32 tensor."""

from collections.abc import Callable
from dataclasses import asdict

import torch

from mixprec import kernels

from ._device_clock import measure_on

CASTS = (
    "bf16",
    "e4m3",
    "e4m3 sr",
    "e4m3[tensor]",
    "e4m3[row]",
    "mxfp8",
    "mxfp4 sr",
    "nvfp4",
    "nvfp4 sr rht16",
    "nvfp4-2d",
    "e4m3[1x128:fp32]",
)
ALONG_COLUMNS = ("mxfp8", "nvfp4 sr rht16")
CODED = ("mxfp8", "nvfp4")


def time_roundings(device: torch.device, quick: bool) -> list[dict[str, object]]:
    """One row for each cast: the time over a copy's, into a tensor that exists; codes into fresh ones."""
    columns = 2048
    x = torch.randn(2 ** (18 if quick else 27) // columns, columns, device=device)
    y, random = torch.empty_like(x), torch.tensor([1, 2])
    calls: dict[str, Callable[[], object]] = {"copy": lambda: y.copy_(x), "amax": lambda: kernels.amax(x)}
    for cast in CASTS:
        calls[cast] = lambda cast=cast: kernels.scaled(x, cast, axis=1, random=random, out=y)
    for cast in ALONG_COLUMNS:
        calls[f"{cast} axis 0"] = lambda cast=cast: kernels.scaled(x, cast, axis=0, random=random, out=y)
    for cast in CODED:
        calls[f"{cast} codes"] = lambda cast=cast: kernels.quantize(x, cast)
        made = kernels.quantize(x, cast)
        calls[f"{cast} values"] = lambda cast=cast, made=made: kernels.dequantize(*made, cast, x.shape, out=y)
    timings = measure_on(device, calls, "copy", rounds=3 if quick else 15, repeats=2 if quick else 10)
    copied = 2 * x.nbytes
    print(f"fp32 {list(x.shape)}; the copy moves {copied / timings['copy'].milliseconds / 1e6:.0f} GB/s")
    for name, timing in timings.items():
        print(f"{name:32}{timing.ratio:8.2f}   {timing.low:.2f} .. {timing.high:.2f}{timing.milliseconds:12.4f} ms")
    return [{"name": name, "elements": x.numel(), **asdict(timing)} for name, timing in timings.items()]
