"""``mixprec init``: a workload file to start from."""

from __future__ import annotations

from pathlib import Path


def command(file: Path, /) -> int:
    """Write a complete, commented workload file to start from.

    It runs as it is; put your own model, data and loss in its place. An existing file is never overwritten.

    For example: `mixprec init my.py`, then `mixprec compare my.py`

    Args:
        file: where to write it; ends in `.py`.
    """
    from mixprec.compare import write_template

    written = write_template(file)
    print(f"wrote {written}; it runs as it is: mixprec compare {written}")
    return 0
