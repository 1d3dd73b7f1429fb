"""Seeding torch without a trace."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch


def step_seed(seed: int, step: int) -> int:
    """What torch is seeded with before a step of a comparison, so that all recipes draw alike.

    Example:
        >>> step_seed(0, 7), step_seed(2, 7)
        (7, 2000013)
    """
    return (seed * 1_000_003 + step) % 2**63


def own_random_state(device: str | torch.device) -> AbstractContextManager[None]:
    """Leave the caller's random state, of the CPU and of ``device``, as it was before the block.

    Example:
        >>> before = torch.random.get_rng_state()
        >>> with own_random_state("cpu"):
        ...     _ = torch.manual_seed(1), torch.rand(3)
        >>> torch.equal(before, torch.random.get_rng_state())
        True
    """
    where = torch.device(device)
    if where.type == "cpu":
        return torch.random.fork_rng(devices=[])
    return torch.random.fork_rng(devices=[where.index or 0], device_type=where.type)
