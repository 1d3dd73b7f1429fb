"""The built-in GPT with E4M3 or E5M2 gradients under MXFP8: a gap that three pairs of so small a model cannot tell.

The comparison:

    mixprec compare not_resolvable.py --targets not_resolvable.toml \
        --recipes mxfp8,recipes/mxfp8-e5m2.toml
"""

from dataclasses import replace

import mixprec
from mixprec.compare.workloads.gpt import workload as gpt


def workload(seed: int, device: str, steps: int = 400) -> mixprec.Workload:
    """The GPT of a seed."""
    return replace(gpt(seed, device, steps=steps), name="not_resolvable")
