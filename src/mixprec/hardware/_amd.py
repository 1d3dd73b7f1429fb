"""AMD's Instinct accelerators. Rates are dense."""

from __future__ import annotations

from ._figure import Figure
from ._hardware import Hardware
from ._rows import MX_BLOCKS, giga, shares, tera

_MI300X = "AMD Instinct MI300X accelerator data sheet"
_MI355X = "AMD Instinct MI355X GPU data sheet"
_MAMF = "stas00/ml-engineering, Maximum Achievable Matmul FLOPS comparison table"

MI300X = Hardware(
    name="mi300x",
    title="AMD Instinct MI300X",
    kind="gpu",
    memory=Figure(206141652992, "rocm-smi, in github.com/ROCm/legacy-rocm-build issue 4750"),
    bandwidth=giga(5300, _MI300X),
    rates=tera(_MI300X, fp32=163.4, tf32=653.7, bf16=1307.4, fp16=1307.4, fp8=2614.9, int8=2614.9),
    attainable=shares(_MAMF, bf16=0.51, fp16=0.51),
    link=giga(448, f"{_MI300X}: seven Infinity Fabric links of 128 GB/s, both ways"),
)
MI355X = Hardware(
    name="mi355x",
    title="AMD Instinct MI355X",
    kind="gpu",
    memory=giga(288, _MI355X),
    bandwidth=giga(8000, _MI355X),
    # CDNA 4 multiplies FP6 at FP4's rate; it has no TF32.
    rates=tera(_MI355X, fp32=157.3, bf16=2516.6, fp16=2516.6, fp8=5033.2, fp6=10066.3, fp4=10066.3, int8=5033.2),
    block_formats=MX_BLOCKS,
    link=giga(537.6, f"{_MI355X}: seven Infinity Fabric links of 153.6 GB/s, both ways"),
)

AMD = (MI300X, MI355X)
