"""NVIDIA's data-center devices up to Ada. Rates are dense, with fp32 sums: half of those "with sparsity"."""

from __future__ import annotations

from dataclasses import replace

from ._hardware import Hardware
from ._rows import PCIE_3, PCIE_4, REPORTED, giga, mebi, shares, tera

_V100 = "NVIDIA Tesla V100 GPU Accelerator datasheet, SXM2"
_T4 = "NVIDIA T4 Tensor Core GPU datasheet"
_A100 = "NVIDIA A100 Tensor Core GPU datasheet, SXM"
_A100_40 = "NVIDIA A100 Tensor Core GPU Architecture whitepaper, A100 40 GB"
_A10G = "NVIDIA A10G datasheet"
_L4 = "NVIDIA L4 Tensor Core GPU datasheet, half of the figures with sparsity"
_L40S = "NVIDIA L40S datasheet"
_MAMF = "stas00/ml-engineering, Maximum Achievable Matmul FLOPS comparison table"

V100 = Hardware(
    name="v100",
    title="NVIDIA V100 SXM2",
    kind="gpu",
    capability="7.0",
    memory=mebi(32480, "nvidia-smi, in github.com/godweiyang/GrabGPU issue 5 (sold with 16 GB too)"),
    bandwidth=giga(900, _V100),
    rates=tera(_V100, fp32=15.7, fp16=125),
    link=giga(150, f"{_V100}: NVLink 300 GB/s, both ways"),
    network=giga(6.25, "NVIDIA DGX-1 with Tesla V100 datasheet: 4 x 100 Gb/s InfiniBand for 8 GPUs"),
)
T4 = Hardware(
    name="t4",
    title="NVIDIA T4",
    kind="gpu",
    capability="7.5",
    memory=mebi(15360, REPORTED),
    bandwidth=giga(300, f"{_T4}: 300 GB/s (the Turing whitepaper: 320)"),
    rates=tera(_T4, fp32=8.1, fp16=65, int8=130),
    link=PCIE_3,
)
A100_80GB = Hardware(
    name="a100-80gb",
    title="NVIDIA A100 SXM4 80 GB",
    kind="gpu",
    capability="8.0",
    memory=mebi(81920, REPORTED),
    bandwidth=giga(2039, _A100),
    rates=tera(_A100, fp32=19.5, tf32=156, bf16=312, fp16=312, int8=624),
    attainable=shares(_MAMF, bf16=0.87, fp16=0.87),
    link=giga(300, f"{_A100}: NVLink 600 GB/s, both ways"),
    network=giga(25, "NVIDIA DGX A100 datasheet: 8 x 200 Gb/s InfiniBand for 8 GPUs"),
)
A100_40GB = replace(
    A100_80GB,
    name="a100-40gb",
    title="NVIDIA A100 SXM4 40 GB",
    memory=mebi(40960, REPORTED),
    bandwidth=giga(1555, _A100_40),
)
A10G = Hardware(
    name="a10g",
    title="NVIDIA A10G",
    kind="gpu",
    capability="8.6",
    memory=mebi(23028, f"{REPORTED}, of an A10"),
    bandwidth=giga(600, _A10G),
    rates=tera(f"{_A10G} (an A10 multiplies at 125)", fp32=35, tf32=35, bf16=70, fp16=70, int8=140),
    link=PCIE_4,
)
L4 = Hardware(
    name="l4",
    title="NVIDIA L4",
    kind="gpu",
    capability="8.9",
    memory=mebi(23034, REPORTED),
    bandwidth=giga(300, _L4),
    rates=tera(_L4, fp32=30.3, tf32=60, bf16=121, fp16=121, fp8=242.5, int8=242.5),
    link=PCIE_4,
)
L40S = Hardware(
    name="l40s",
    title="NVIDIA L40S",
    kind="gpu",
    capability="8.9",
    memory=mebi(46068, REPORTED),
    bandwidth=giga(864, _L40S),
    rates=tera(_L40S, fp32=91.6, tf32=183, bf16=362.05, fp16=362.05, fp8=733, int8=733),
    link=PCIE_4,
)

DATA_CENTER = (V100, T4, A100_40GB, A100_80GB, A10G, L4, L40S)
