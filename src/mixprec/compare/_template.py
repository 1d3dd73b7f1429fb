"""The workload file that ``mixprec init`` writes."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def write_template(path: str | Path) -> Path:
    """Write a complete, commented workload file to start from.

    Args:
        path: where; must end in ``.py``. An existing file is never overwritten.

    Raises:
        ValueError: if the name does not end in ``.py``, or the file exists.
        OSError: if it cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     written = write_template(Path(folder, "job.py"))
        ...     "def workload(seed: int, device: str" in written.read_text()
        True
    """
    path = Path(path)
    if path.suffix != ".py":
        raise ValueError(f"a workload file ends in .py, got {str(path)!r}: try {path.with_suffix('.py')}")
    text = files("mixprec.compare").joinpath("workload_template.txt").read_text("utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text.replace("THIS_FILE", path.name))
    except FileExistsError:
        raise ValueError(f"{path} exists and is not overwritten: choose another name") from None
    return path
