"""The built-in GPT in four bits: MXFP4 loses more than the NVFP4 recipe, a stochastic forward pass more than either.

The comparison:

    mixprec compare four_bits.py --targets four_bits.toml \
        --recipes fp32,recipes/mxfp4-nearest.toml,recipes/nvfp4-everywhere.toml,recipes/nvfp4-forward-sr.toml
"""

from dataclasses import replace

import mixprec
from mixprec.compare.workloads.gpt import workload as gpt


def workload(seed: int, device: str, steps: int = 800) -> mixprec.Workload:
    """The GPT of a seed."""
    return replace(gpt(seed, device, steps=steps), name="four_bits")
