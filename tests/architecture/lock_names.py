"""The public names, locked in a file, so that adding or removing one is seen in review.

`python -m tests.architecture.lock_names` writes the file anew.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.architecture import tree

LOCK = Path(__file__).with_name("public_names.txt")


def public_names() -> list[str]:
    """Every name of every package's `__all__`, dotted; a package without one has none."""
    names: list[str] = []
    for package in tree.packages():
        module = importlib.import_module(package)
        names += [f"{package}.{name}" for name in sorted(getattr(module, "__all__", ()))]
    return names


def locked_names() -> list[str]:
    return LOCK.read_text(encoding="utf-8").split()


def main() -> None:
    LOCK.write_text("".join(f"{name}\n" for name in public_names()), encoding="utf-8")


if __name__ == "__main__":
    main()
