"""The catalog's memory: binary, as drivers report it."""

from __future__ import annotations

import pytest

from mixprec.hardware import find

GIBIBYTE = 2**30
#: GB of the sheets, which are chips of so many GiB; a driver and ECC keep some.
SHEETS = {
    "rtx3060": 12,
    "rtx3090": 24,
    "rtx4090": 24,
    "rtx5090": 32,
    "v100": 32,
    "t4": 16,
    "a100-40gb": 40,
    "a100-80gb": 80,
    "a10g": 24,
    "l4": 24,
    "l40s": 48,
    "h100-sxm": 80,
    "h100-pcie": 80,
    "h200": 141,
    "b200": 180,
    "mi300x": 192,
}


@pytest.mark.parametrize("name", SHEETS)
def test_memory_is_of_binary_units(name: str) -> None:
    memory = find(name).memory
    assert memory is not None
    assert 0.93 * SHEETS[name] * GIBIBYTE <= memory.value <= SHEETS[name] * GIBIBYTE
    assert memory.source


def test_a_24_gb_card_is_more_than_24e9_bytes() -> None:
    memory = find("rtx3090").memory
    assert memory is not None
    assert memory.value == 24 * GIBIBYTE
    assert "24576 MiB" in memory.source
