"""Products of exactly rounded operands in float64, written without the package's autograd functions.

An operand is what ``kernels.scaled`` gives (the kernels have their own truth), multiplied out in float64; a transform
stays, since both operands of a product have the same one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.specs import Cast, LayerPrecision, parse_cast

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# A layer's streams of random bits, in the order that its documentation gives.
STREAMS = {
    "fprop_input": (0, 0),
    "wgrad_input": (1, 2),
    "fprop_weight": (2, 0),
    "dgrad_weight": (3, 1),
    "dgrad_grad_output": (4, 1),
    "wgrad_grad_output": (5, 2),
}


@dataclass(frozen=True)
class Oracle:
    """The rounded operands of a site, whose random words are those of the first pass of a conversion.

    ``first_stream`` is the site's, ``seed`` the conversion's. ``crosswise``: a gradient that a convolution casts both ways
    as it lies has the words of its two casts the other way round.
    """

    precision: LayerPrecision
    compute_dtype: str = "fp32"
    seed: int = 0
    first_stream: int = 0
    crosswise: bool = False

    def values(self, x: Tensor, operand: str) -> Tensor:
        """A matrix as an operand that is reduced along its last axis, in float64."""
        return rounded(self._taken(x, operand), self.precision.operand(operand), *self._random(operand))

    def transposed_values(self, x: Tensor, operand: str) -> Tensor:
        """A matrix as an operand that is reduced along its first axis; gives it with that axis last."""
        return rounded(self._taken(x, operand), self.precision.operand(operand), *self._random(operand), axis=0).t()

    def _taken(self, x: Tensor, operand: str) -> Tensor:
        """What a cast is given: activations and gradients in the compute dtype, a weight as it is kept."""
        is_weight = operand.endswith("weight") and self.precision.operand(operand) is not None
        return x.detach() if is_weight else x.detach().to(DTYPES[self.compute_dtype])

    def _random(self, operand: str) -> tuple[int, int, int]:
        first = {"wgrad_input": "fprop_input", "wgrad_grad_output": "dgrad_grad_output"}.get(operand)
        cast = self.precision.operand(operand)
        if first and cast and cast == self.precision.operand(first) and not cast.transform:
            if cast.granularity.kind in ("none", "tensor"):  # one rounding serves both products
                operand = first
        stream, signs = STREAMS[operand]
        if self.crosswise and operand.endswith("grad_output"):
            stream = 9 - stream
        return self.seed, self.first_stream + stream, self.first_stream + signs


def rounded(
    x: Tensor, cast: Cast | str | None, seed: int = 0, stream: int = 0, sign_stream: int = 0, axis: int = 1
) -> Tensor:
    """A matrix after a cast, in float64; ``None`` leaves it as it is."""
    if cast is None:
        return x.double()
    cast = parse_cast(cast) if isinstance(cast, str) else cast
    random = torch.tensor([seed, 0])
    if not cast.is_scaled:
        return kernels.round(x, cast, random=random, stream=stream).double()
    if cast.delayed is not None:  # the first pass: a history without entries, so its own amax
        carrier, outer, _ = kernels.delayed(x, cast, torch.zeros(()), random=random, stream=stream)
        return carrier.double() * outer.double()
    carrier, outer = kernels.scaled(x, cast, axis=axis, random=random, stream=stream, sign_stream=sign_stream)
    if cast.granularity.kind == "block" and outer.dim() > 0:
        tile = (cast.granularity.outer, cast.granularity.reduction)
        for dim, size in enumerate(tile if axis == 1 else tile[::-1]):
            outer = outer.repeat_interleave(size, dim).narrow(dim, 0, carrier.shape[dim])
    return carrier.double() * outer.double()


def assert_near(got: Tensor, want: Tensor, relative: float = 1e-5) -> None:
    """Equal up to the order of fp32 sums, or up to one rounding to a compute dtype."""
    assert got.shape == want.shape, (got.shape, want.shape)
    largest = float(want.abs().max()) if want.numel() else 0.0
    torch.testing.assert_close(got.double(), want, rtol=relative, atol=relative * largest)


def rounding_of(compute_dtype: str) -> float:
    """Half a step of the compute dtype, and room for the order of sums."""
    return {"fp32": 1e-5, "bf16": 2.0**-8 + 1e-5, "fp16": 2.0**-11 + 1e-5}[compute_dtype]
