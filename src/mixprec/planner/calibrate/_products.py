"""Seconds of matrix products, of batches of them and of convolutions, at a grid of sizes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...hardware import Grid
from ._stopwatch import Stopwatch

Sizes = tuple[int, ...]
CONVOLUTION_PRODUCTS = ("fprop", "dgrad", "wgrad")
#: Products in a batch, when batches are measured.
_BATCH = 32


def product_grid(watch: Stopwatch, sizes: tuple[Sizes, Sizes, Sizes], dtype: torch.dtype) -> Grid:
    """Seconds of ``[M, K] @ [K, N]``."""

    def make(m: int, n: int, k: int) -> Callable[[], object]:
        a, b = torch.ones(m, k, dtype=dtype), torch.ones(k, n, dtype=dtype)
        return lambda: a @ b

    return _grid(watch, sizes, make)


def batched_grid(watch: Stopwatch, sizes: tuple[Sizes, Sizes, Sizes]) -> Grid:
    """Seconds of one product of a batch."""

    def make(m: int, n: int, k: int) -> Callable[[], object]:
        a, b = torch.ones(_BATCH, m, k), torch.ones(_BATCH, k, n)
        return lambda: torch.bmm(a, b)

    return _grid(watch, sizes, make, share=_BATCH)


def convolution_grids(watch: Stopwatch, pixels: Sizes, channels: Sizes, patches: Sizes) -> dict[str, Grid]:
    """Seconds of the three products of a 3x3 convolution, by (pixels, output channels, input channels x 9).

    Args:
        watch: measures.
        pixels: of all images together; an image has 8 x 8.
        channels: of the output.
        patches: multiples of 9.
    """
    masks = {"dgrad": (True, False, False), "wgrad": (False, True, False)}

    def operands(m: int, n: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
        images = max(1, m // 64)
        return torch.ones(images, k // 9, 8, 8), torch.ones(n, k // 9, 3, 3), torch.ones(images, n, 8, 8)

    def forward(m: int, n: int, k: int) -> Callable[[], object]:
        x, w, _ = operands(m, n, k)
        return lambda: torch.conv2d(x, w, padding=1)

    def backward(mask: tuple[bool, bool, bool]) -> Callable[[int, int, int], Callable[[], object]]:
        def make(m: int, n: int, k: int) -> Callable[[], object]:
            x, w, g = operands(m, n, k)
            pair = [1, 1]
            operator = torch.ops.aten.convolution_backward.default
            return lambda: operator(g, x, w, None, pair, pair, pair, False, [0, 0], 1, list(mask))

        return make

    sizes = (pixels, channels, patches)
    grids = {name: _grid(watch, sizes, backward(mask)) for name, mask in masks.items()}
    return {"fprop": _grid(watch, sizes, forward), **grids}


def _grid(
    watch: Stopwatch,
    sizes: tuple[Sizes, Sizes, Sizes],
    make: Callable[[int, int, int], Callable[[], object]],
    share: int = 1,
) -> Grid:
    ms, ns, ks = sizes
    seconds = [watch.seconds(make(m, n, k))[0] / share for m in ms for n in ns for k in ks]
    return Grid(ms, ns, ks, tuple(seconds))
