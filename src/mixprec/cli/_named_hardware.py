"""Hardware as commands are told it: a name of the catalog, or a TOML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixprec.hardware import Hardware


def named_hardware(name: str) -> Hardware:
    """Find it.

    Raises:
        ValueError: an unknown name, or a file that holds no hardware.
        OSError: a file that cannot be read.
    """
    from mixprec.hardware import find, load_hardware

    return load_hardware(Path(name)) if name.endswith(".toml") else find(name)
