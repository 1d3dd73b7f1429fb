"""The contract's methods over kernels: results are allocated here, and launches write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from .._contract import Draw, SignKey, Sums
from .._out import check_out
from .._parameters import CastParameters
from .._shapes import empty_codes, empty_outer, rounded_shape
from .._stacked import scaled_stacked
from ._casting import Results, Transformation, casting_of
from ._launch import CodesMemory, Launch, Launcher
from ._plan import NO_TRANSFORM, Hadamard, PackPlan, ProductPlan, decode_plan, without_scale
from ._table import table_on
from .device._codes_kernels import dequantize_kernel, pack_kernel
from .device._product_kernel import product_kernel


class TritonKernels:
    """The contract by kernels in Triton's language. See `mixprec.kernels.Backend` for what each method gives.

    Nothing waits for the device: a largest magnitude stays there, and the next kernel reads it.

    Args:
        launch: what runs a kernel.
    """

    name = "triton"

    def __init__(self, launch: Launcher) -> None:
        self._launch = launch

    def round(self, x: Tensor, parameters: CastParameters, draw: Draw, *, out: Tensor | None = None) -> Tensor:
        """Every element on its own."""
        result = _result(x, x.shape, out)
        casting = casting_of(x.contiguous().reshape(1, -1), without_scale(parameters), 1, draw, self._launch)
        casting.into(Results(elements=result, scales=None, outer=None))
        return result

    def scaled(
        self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale."""
        carrier = _result(x, rounded_shape(x.shape, parameters.transform, axis), out)
        outer = empty_outer(x, parameters, axis)
        casting = casting_of(x, parameters, axis, draw, self._launch)
        casting.into(Results(elements=carrier, scales=None, outer=outer))
        return carrier, outer

    def scaled_interleaved(
        self, x: Tensor, parameters: CastParameters, axis: int, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Carrier and outer scale of matrices whose columns alternate."""
        return scaled_stacked(self.scaled, x, parameters, axis, out)

    def scaled_both(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: tuple[Tensor | None, Tensor | None] = (None, None),
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then along columns."""
        first = self.scaled(x, row, 1, draws[0], out=out[0])
        return *first, *self.scaled(x, column, 0, draws[1], out=out[1])

    def scaled_quantized(
        self,
        x: Tensor,
        row: CastParameters,
        column: CastParameters,
        draws: tuple[Draw, Draw],
        *,
        out: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Carrier and outer scale along rows, then codes along columns."""
        first = self.scaled(x, row, 1, draws[0], out=out)
        return *first, *self.quantize(x, column, 0, draws[1])

    def delayed(
        self, x: Tensor, parameters: CastParameters, draw: Draw, amax: Tensor, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Carrier, outer scale and amax of a tensor under the scale of a given amax."""
        carrier, outer = _result(x, x.shape, out), empty_outer(x, parameters, 1)
        casting = casting_of(x, parameters, 1, draw, self._launch)
        own = casting.into(Results(elements=carrier, scales=None, outer=outer), given=amax)
        if own is None:
            raise ValueError(f"a delayed cast takes one scale for the tensor, got one by {parameters.scaling}")
        return carrier, outer, own.view(torch.float32).reshape(())

    def amax(self, x: Tensor) -> Tensor:
        """Largest magnitude."""
        matrix = Transformation(
            x=x.contiguous().reshape(1, -1),
            hadamard=NO_TRANSFORM,
            signs=SignKey(0, 0),
            shape=(1, x.numel()),
            launch=self._launch,
        )
        return matrix.largest_of_all().view(torch.float32).reshape(())

    def hadamard(
        self, x: Tensor, size: int, signs: SignKey | None, axis: int, inverse: bool, *, out: Tensor | None = None
    ) -> Tensor:
        """Hadamard transform along an axis."""
        shape = rounded_shape(x.shape, size, axis)
        matrix = Transformation(
            x=x,
            hadamard=Hadamard(size=size, axis=axis, signs=signs is not None, inverse=inverse),
            signs=signs or SignKey(0, 0),
            shape=shape,
            launch=self._launch,
        )
        return matrix.write(_result(x, shape, out))

    def quantize(self, x: Tensor, parameters: CastParameters, axis: int, draw: Draw) -> tuple[Tensor, Tensor, Tensor]:
        """Packed codes, codes of the block scales, outer scale."""
        packed, scales = empty_codes(x, parameters, axis)
        outer = empty_outer(x, parameters, axis)
        codes = packed
        if parameters.grid.bits != 8:
            dtype = torch.uint8 if parameters.grid.bits < 8 else torch.int32
            codes = x.new_empty(rounded_shape(x.shape, parameters.transform, axis), dtype=dtype)
        casting = casting_of(x, parameters, axis, draw, self._launch)
        casting.into(Results(elements=codes, scales=scales, outer=outer))
        if codes is not packed:
            self._pack(codes, packed, PackPlan(bits=parameters.grid.bits))
        return packed, scales, outer

    def dequantize(
        self,
        codes: Tensor,
        scales: Tensor,
        outer: Tensor | None,
        parameters: CastParameters,
        shape: Sequence[int],
        axis: int,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Values from codes and scales."""
        result = _result(codes, shape, out)
        plan = decode_plan(parameters, axis, outer=outer is not None)
        table = table_on(codes.device, parameters.grid, parameters.rounding) if parameters.grid.table else None
        outer = outer.float().contiguous() if outer is not None else None
        arguments = {
            "memory": CodesMemory(codes.contiguous(), scales.contiguous(), outer, table, result),
            "columns": result.shape[1],
            "row_bytes": codes.shape[1],
            "count": result.numel(),
            "decoding": plan,
        }
        self._over(result, math.ceil(result.numel() / plan.block), dequantize_kernel, arguments)
        return result

    def narrow_product(self, a_MK: Tensor, b_KN: Tensor, sums: Sums) -> Tensor:
        """``a @ b`` with a narrow accumulator."""
        result = a_MK.new_empty((a_MK.shape[0], b_KN.shape[1]), dtype=torch.float32)
        plan = ProductPlan(mantissa_bits=sums.mantissa_bits, rounding=sums.rounding, promote_every=sums.promote_every)
        arguments = {
            "matrices": (a_MK.float().contiguous(), b_KN.float().contiguous(), result),
            "shape": (*result.shape, a_MK.shape[1]),
            "sums": plan,
        }
        programs = math.ceil(result.shape[0] / plan.rows) * math.ceil(result.shape[1] / plan.columns)
        self._over(result, programs, product_kernel, arguments)
        return result

    def _pack(self, codes: Tensor, packed: Tensor, plan: PackPlan) -> None:
        arguments = {
            "codes": codes,
            "packed": packed,
            "columns": codes.shape[1],
            "row_bytes": packed.shape[1],
            "count": packed.numel(),
            "packing": plan,
        }
        self._over(packed, math.ceil(packed.numel() / plan.block), pack_kernel, arguments)

    def _over(self, result: Tensor, programs: int, kernel: object, arguments: Mapping[str, object]) -> None:
        """Launch a kernel that writes a result, unless that is empty."""
        if programs:
            launch = Launch(kernel=kernel, arguments=dict(arguments), programs=programs, warps=4, device=result.device)
            self._launch(launch)


def _result(x: Tensor, shape: Sequence[int], out: Tensor | None) -> Tensor:
    """Where a result for x goes: ``out``, or fresh memory."""
    return x.new_empty(tuple(shape), dtype=torch.float32) if out is None else check_out(x, out, shape)
