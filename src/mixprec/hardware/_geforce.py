"""GeForce cards: their tensor cores run at half rate with fp32 sums, which is what training needs.

The sheets' headline numbers are with fp16 sums or with 2:4 sparsity; 82.6 TFLOPS of an RTX 4090 in fp16 is the rate
without tensor cores.
"""

from __future__ import annotations

from ._hardware import Hardware
from ._rows import BLACKWELL_BLOCKS, PCIE_4, PCIE_5, giga, mebi, tera

_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper, GeForce RTX 3090"
_RTX_3060 = "GeForce RTX 3060 specifications: 12 GB, 192 bits at 15 Gb/s"
_GA106 = (
    "derived: 28 multiprocessors at 1.777 GHz (GeForce RTX 3060 specifications) times a multiprocessor's rate of "
    "NVIDIA Ampere GA102 GPU Architecture whitepaper (fp16 with fp32 sums: 256 multiply-adds a clock)"
)
_ADA = "NVIDIA Ada GPU Architecture whitepaper, GeForce RTX 4090"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper, GeForce RTX 5090"

RTX_3060 = Hardware(
    name="rtx3060",
    title="NVIDIA GeForce RTX 3060 12 GB",
    kind="gpu",
    capability="8.6",
    memory=mebi(12288, "nvidia-smi, in github.com/geerlingguy/raspberry-pi-pcie-devices issue 790"),
    bandwidth=giga(360, _RTX_3060),
    rates=tera(_GA106, fp32=12.74, tf32=12.74, bf16=25.5, fp16=25.5, int8=101.9),
    link=PCIE_4,
)
RTX_3090 = Hardware(
    name="rtx3090",
    title="NVIDIA GeForce RTX 3090",
    kind="gpu",
    capability="8.6",
    memory=mebi(24576, "nvidia-smi, in github.com/noonghunna/club-3090 issue 390"),
    bandwidth=giga(936, _GA102),
    rates=tera(f"{_GA102}, with FP32 accumulate", fp32=35.6, tf32=35.6, bf16=71, fp16=71, int8=284),
    link=PCIE_4,
)
RTX_4090 = Hardware(
    name="rtx4090",
    title="NVIDIA GeForce RTX 4090",
    kind="gpu",
    capability="8.9",
    memory=mebi(24564, "nvidia-smi, in github.com/RLinf/RLinf issue 255"),
    bandwidth=giga(1008, _ADA),
    rates=tera(f"{_ADA}, with FP32 accumulate", fp32=82.6, tf32=82.6, bf16=165.2, fp16=165.2, fp8=330.3, int8=660.6),
    link=PCIE_4,
)
RTX_5090 = Hardware(
    name="rtx5090",
    title="NVIDIA GeForce RTX 5090",
    kind="gpu",
    capability="12.0",
    memory=mebi(32607, "nvidia-smi, in github.com/noonghunna/club-3090 issue 1229"),
    bandwidth=giga(1792, _RTX_BLACKWELL),
    rates=tera(
        f"{_RTX_BLACKWELL}, with FP32 accumulate",
        fp32=104.8,
        tf32=104.8,
        bf16=209.5,
        fp16=209.5,
        fp8=419,
        fp4=1676,
        int8=838,
    ),
    # No rate of FP6 is printed, so its block formats are left out.
    block_formats=tuple(name for name in BLACKWELL_BLOCKS if "fp6" not in name),
    link=PCIE_5,
)

GEFORCE = (RTX_3060, RTX_3090, RTX_4090, RTX_5090)
