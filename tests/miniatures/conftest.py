"""Trainings that several tests need are done once in a run, also where several processes share it."""

import os
from collections.abc import Iterator

import pytest

from .training import SHARED


@pytest.fixture(scope="session", autouse=True)
def shared_outcomes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder of this run, into which each process writes what its trainings ended with."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # whose own folder lies in that of the run
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(folder / "miniatures"))
        yield
