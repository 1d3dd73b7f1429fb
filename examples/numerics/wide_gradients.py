"""The built-in GPT at a batch of 4, in formats of 8 bits without scales: gradients need the range of E5M2.

At a batch of 16 the gradients of a mean are four times smaller, and E5M2 flushes too many of them as well: scales.py.

The comparison:

    mixprec compare wide_gradients.py --targets wide_gradients.toml \
        --recipes fp32,recipes/e4m3.toml,recipes/e4m3-e5m2.toml
"""

from dataclasses import replace

import mixprec
from mixprec.compare.workloads.gpt import GPTConfig
from mixprec.compare.workloads.gpt import workload as gpt


def workload(seed: int, device: str, steps: int = 400) -> mixprec.Workload:
    """The GPT of a seed."""
    return replace(gpt(seed, device, steps=steps, config=GPTConfig(batch=4)), name="wide_gradients")
