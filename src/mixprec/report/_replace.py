"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace(path: Path, data: bytes) -> None:
    """Write beside the file, then move: a reader sees the old one or the new one, and a full disk leaves no half.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
