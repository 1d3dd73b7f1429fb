"""The public surface changes only on purpose."""

from __future__ import annotations

import importlib

import pytest

from tests.architecture import tree
from tests.architecture.lock_names import locked_names, public_names


def test_public_names_are_the_locked_ones():
    found, locked = set(public_names()), set(locked_names())
    assert found == locked, (
        f"new: {sorted(found - locked)}; gone: {sorted(locked - found)}. "
        "If that is meant: python -m tests.architecture.lock_names, and a line in CHANGELOG.md"
    )


@pytest.mark.parametrize("package", tree.packages())
def test_every_public_name_exists(package: str):
    module = importlib.import_module(package)
    missing = [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    assert not missing
