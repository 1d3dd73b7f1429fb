"""The built-in GPT in formats of 8 bits: without scales gradients are lost, with scales they are not.

The comparison:

    mixprec compare scales.py --targets scales.toml \
        --recipes fp32,recipes/e4m3.toml,recipes/e4m3-e5m2.toml,mxfp8,fp8
"""

from dataclasses import replace

import mixprec
from mixprec.compare.workloads.gpt import workload as gpt


def workload(seed: int, device: str, steps: int = 800) -> mixprec.Workload:
    """The GPT of a seed."""
    return replace(gpt(seed, device, steps=steps), name="scales")
