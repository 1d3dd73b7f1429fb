from __future__ import annotations

from pathlib import Path

import pytest

from mixprec.compare import load_workload, write_template
from mixprec.compare._workload_checks import check_workload


def test_the_template_is_a_workload_that_passes_every_check(tmp_path: Path):
    file = write_template(tmp_path / "job.py")
    assert "mixprec compare job.py" in file.read_text()
    job = load_workload(str(file), steps=20).build(0, "cpu")
    assert job.steps == 20
    check_workload(job, "job.py", file)


def test_nothing_is_overwritten(tmp_path: Path):
    file = tmp_path / "job.py"
    file.write_text("mine")
    with pytest.raises(ValueError, match="exists and is not overwritten"):
        write_template(file)
    assert file.read_text() == "mine"


def test_the_name_must_end_in_py(tmp_path: Path):
    with pytest.raises(ValueError, match=r"ends in .py, got .*job': try .*job.py"):
        write_template(tmp_path / "job")


def test_a_folder_that_does_not_exist(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        write_template(tmp_path / "none" / "job.py")
