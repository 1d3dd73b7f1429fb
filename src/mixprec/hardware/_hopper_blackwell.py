"""NVIDIA's Hopper and Blackwell of the data center. Rates are dense: half of what a sheet prints "with sparsity"."""

from __future__ import annotations

from dataclasses import replace

from ._figure import Figure
from ._hardware import Hardware
from ._rows import BLACKWELL_BLOCKS, PCIE_5, REPORTED, giga, mebi, shares, tera

_H100 = "NVIDIA H100 Tensor Core GPU datasheet, half of the figures with sparsity"
_H200 = "NVIDIA H200 Tensor Core GPU datasheet, half of the figures with sparsity"
_B200 = "NVIDIA Blackwell Architecture Technical Brief, HGX B200, one GPU, half of the figures with sparsity"
_DGX_B200 = "NVIDIA DGX B200 datasheet, an eighth of the system"
_B300 = "NVIDIA HGX platform page, HGX B300, an eighth of the board, half of the figures with sparsity"
_MAMF = "stas00/ml-engineering, Maximum Achievable Matmul FLOPS comparison table"
_TORCHAO = "torchao roofline_utils.py"
_LAUNCH = Figure(2e-6, f"{_TORCHAO}: a Triton kernel of one element on an H100")
_NVLINK_5 = giga(900, "NVIDIA Blackwell Architecture Technical Brief: NVLink 1.8 TB/s, both ways")
_MEMORY_SHARE = shares(f"{_TORCHAO}: pointwise Triton kernels on an H100", bandwidth=0.92)

H100_SXM = Hardware(
    name="h100-sxm",
    title="NVIDIA H100 SXM5",
    kind="gpu",
    capability="9.0",
    memory=mebi(81559, REPORTED),
    bandwidth=giga(3350, f"{_H100} (torchao's H100 has 2400)"),
    rates=tera(_H100, fp32=67, tf32=494.5, bf16=989, fp16=989, fp8=1979, int8=1979),
    attainable={**shares(_MAMF, bf16=0.80, fp16=0.80, fp8=0.71), **_MEMORY_SHARE},
    link=giga(450, f"{_H100}: NVLink 900 GB/s, both ways"),
    network=giga(50, "NVIDIA DGX H100 datasheet: 8 x 400 Gb/s for 8 GPUs"),
    launch=_LAUNCH,
)
H100_PCIE = Hardware(
    name="h100-pcie",
    title="NVIDIA H100 PCIe",
    kind="gpu",
    capability="9.0",
    memory=mebi(81559, REPORTED),
    bandwidth=giga(2000, _H100),
    rates=tera(_H100, fp32=51, tf32=378, bf16=756, fp16=756, fp8=1513, int8=1513),
    link=PCIE_5,
    launch=_LAUNCH,
)
H200 = replace(
    H100_SXM,
    name="h200",
    title="NVIDIA H200 SXM",
    memory=mebi(143771, "nvidia-smi of driver 570.158.01"),
    bandwidth=giga(4800, _H200),
    rates=tera(_H200, fp32=67, tf32=494.5, bf16=989, fp16=989, fp8=1979, int8=1979),
    attainable={},
    link=giga(450, f"{_H200}: NVLink 900 GB/s, both ways"),
    network=giga(50, "NVIDIA DGX H200 datasheet: 8 x 400 Gb/s for 8 GPUs"),
    launch=None,
)
B200 = Hardware(
    name="b200",
    title="NVIDIA B200 SXM",
    kind="gpu",
    capability="10.0",
    memory=Figure(178.35 * 2**30, "a driver, in github.com/pytorch/ao pull request 4002: 178.35 GiB"),
    bandwidth=giga(8000, f"{_DGX_B200}: 64 TB/s for 8 GPUs (a driver reports 7.67)"),
    rates=tera(_B200, fp32=80, tf32=1125, bf16=2250, fp16=2250, fp8=4500, fp6=4500, fp4=9000, int8=4500),
    block_formats=BLACKWELL_BLOCKS,
    attainable=shares(_MAMF, bf16=0.776, fp16=0.776, fp8=0.76),
    link=_NVLINK_5,
    network=giga(50, "NVIDIA DGX B200 datasheet: 8 x 400 Gb/s for 8 GPUs"),
)
B300 = Hardware(
    name="b300",
    title="NVIDIA B300 SXM (Blackwell Ultra)",
    kind="gpu",
    capability="10.3",
    memory=giga(288, "NVIDIA Blackwell Ultra datasheet: 288 GB"),
    bandwidth=giga(8000, "NVIDIA Blackwell Ultra datasheet: 8 TB/s"),
    # FP4 is printed dense beside sparse. The sheets disagree about int8, which was cut: none is given.
    rates={
        **tera(_B300, fp32=75, tf32=1125, bf16=2250, fp16=2250, fp8=4500, fp6=4500),
        **tera("NVIDIA HGX platform page, HGX B300: 105 PFLOPS dense for 8 GPUs", fp4=13125),
    },
    block_formats=BLACKWELL_BLOCKS,
    link=_NVLINK_5,
    network=giga(100, "NVIDIA DGX B300 datasheet: 8 x 800 Gb/s for 8 GPUs"),
)

HOPPER_BLACKWELL = (H100_SXM, H100_PCIE, H200, B200, B300)
