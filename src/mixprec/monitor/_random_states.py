"""The random states that a training loop draws from: torch's on every device, Python's and numpy's."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_states() -> dict[str, Any]:
    """All of them as they are; of accelerators those that are in use.

    Example:
        >>> before = random_states()
        >>> drawn = torch.rand(()).item(), random.random(), np.random.rand()
        >>> load_random_states(before)
        []
        >>> drawn == (torch.rand(()).item(), random.random(), np.random.rand())
        True
    """
    return {
        "torch": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "accelerator": _accelerator_states(),
    }


def load_random_states(states: Mapping[str, Any]) -> list[str]:
    """Draw on from saved states.

    Returns:
        What could not be restored, for people: devices that are not here.
    """
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    saved: dict[str, Any] = states["accelerator"]
    here = _accelerator_states()
    for place in saved.keys() & here.keys():
        torch.get_device_module(place.partition(":")[0]).set_rng_state(saved[place], place)
    missing = [place for place in saved if place not in here]
    return [f"the random state of {', '.join(missing)}, which is not in use here"] if missing else []


def _accelerator_states() -> dict[str, torch.Tensor]:
    """By device; asking a device that nothing ran on would start it."""
    if not torch.accelerator.is_available():
        return {}
    kind = torch.accelerator.current_accelerator()
    module = torch.get_device_module(kind)
    if kind is None or not getattr(module, "is_initialized", lambda: True)():
        return {}
    places = [f"{kind.type}:{index}" for index in range(torch.accelerator.device_count())]
    return {place: module.get_rng_state(place) for place in places}
