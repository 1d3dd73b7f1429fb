"""Layer precisions that reach every way of multiplying."""

from __future__ import annotations

from mixprec.specs import Accumulator, LayerPrecision, parse_cast

_UNIFORM = (
    "bf16", "e4m3", "e4m3[tensor]", "e4m3[tensor:e8m0] rceil", "e4m3[tensor] delayed", "e4m3[row]", "e4m3[row:e8m0] "
    "rceil",
    "mxfp8 rceil", "mxfp6-e3m2", "mxfp4", "mxfp4 sr", "mxfp4 ht16", "mxfp4 x3/4 sr rht64-fresh", "nvfp4", "nvfp4 4/6",
    "nvfp4-2d", "nvfp4 sr rht16", "e2m1[1x16:ue5m3]", "e4m3[1x128:fp32]", "e4m3[1x32:fp32]", "e4m3[128x128:fp32]",
    "e4m3[128x128:e8m0] rceil", "e4m3[16x8:fp32]", "e4m3[1x32:fp32] rht16", "int8[row]", "int8[tensor]", "int8[row] sr",
    "int8[1x32:e8m0]", "int4[1x32:fp32]", "int4[1x16:e4m3*fp32]", "nf4[1x64:fp32]", "nf4[tensor]",
)  # fmt: skip

PRECISIONS: dict[str, LayerPrecision] = {
    **{cast: LayerPrecision.uniform(cast) for cast in _UNIFORM},
    "fp8": LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor]", grad_output="e5m2[tensor]"),
    "fp8-block fp32": LayerPrecision.of(
        input="e4m3[1x128:fp32]", weight="e4m3[128x128:fp32]", grad_output="e4m3[1x128:fp32]"
    ),
    "tiles of two lengths": LayerPrecision.of(
        input="e4m3[1x24:fp32]", weight="e4m3[4x16:fp32]", grad_output="e4m3[1x16:fp32]"
    ),
    "forward only": LayerPrecision(fprop_input=parse_cast("mxfp8"), fprop_weight=parse_cast("mxfp8")),
    "backward only": LayerPrecision(
        dgrad_grad_output=parse_cast("mxfp4 sr"),
        dgrad_weight=parse_cast("mxfp4"),
        wgrad_grad_output=parse_cast("mxfp4 sr rht16"),
        wgrad_input=parse_cast("mxfp4 rht16"),
    ),
    "input alone": LayerPrecision.of(input="e4m3[row]"),
    "weight alone": LayerPrecision.of(weight="nvfp4-2d"),
    "gradient alone": LayerPrecision.of(grad_output="int8[row] sr"),
    "int8 by tiles and rows": LayerPrecision.of(
        input="int8[row]", weight="int8[1x32:fp32]", grad_output="int8[tensor]"
    ),
    "narrow sums": LayerPrecision.uniform("e4m3[tensor]", accumulator=Accumulator(mantissa_bits=20)),
    "narrow sums of tiles": LayerPrecision.uniform(
        "e4m3[1x32:fp32]", accumulator=Accumulator(mantissa_bits=22, rounding="nearest-even", promote_every=32)
    ),
}
