"""The built-in GPT in E2M1 with one scale per tensor: stochastic gradients bring much back of what nearest flushes.

The comparison:

    mixprec compare tensor_e2m1.py --targets tensor_e2m1.toml \
        --recipes fp32,recipes/e2m1.toml,recipes/e2m1-sr.toml,recipes/mxfp4-nearest.toml,recipes/nvfp4-nearest.toml
"""

from dataclasses import replace

import mixprec
from mixprec.compare.workloads.gpt import workload as gpt


def workload(seed: int, device: str, steps: int = 400) -> mixprec.Workload:
    """The GPT of a seed."""
    return replace(gpt(seed, device, steps=steps), name="tensor_e2m1")
