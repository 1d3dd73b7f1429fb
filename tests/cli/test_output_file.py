"""Output files appear whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mixprec.cli._output_file import STDOUT, OutputFile


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_is_there_only_when_the_work_has_ended(tmp_path: Path):
    with OutputFile(tmp_path / "a.json") as output:
        output.write("grün\n")
        assert not (tmp_path / "a.json").exists()
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "grün\n"
    assert names(tmp_path) == ["a.json"]
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == stat.S_IMODE(ordinary.stat().st_mode)


@pytest.mark.parametrize("stop", [ValueError, KeyboardInterrupt])
def test_what_was_there_before_outlives_an_error(tmp_path: Path, stop: type[BaseException]):
    (tmp_path / "a.json").write_text("before")

    def work() -> None:
        with OutputFile(tmp_path / "a.json") as output:
            output.write("after")
            raise stop

    with pytest.raises(stop):
        work()
    assert names(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "before"


def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    for path, error in (
        (tmp_path / "folder", IsADirectoryError),
        (tmp_path / "none" / "a.json", FileNotFoundError),
        (tmp_path / "file" / "a.json", NotADirectoryError),
    ):
        with pytest.raises(error) as told, OutputFile(path):
            pytest.fail("the work began")
        assert told.value.filename == str(path)
    assert names(tmp_path) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_or_folder_without_permission_is_told_before_the_work(tmp_path: Path):
    locked = tmp_path / "locked"
    locked.mkdir()
    (tmp_path / "read-only").touch(mode=0o400)
    locked.chmod(0o500)
    for path in (locked / "a.json", tmp_path / "read-only"):
        with pytest.raises(PermissionError) as told, OutputFile(path):
            pytest.fail("the work began")
        assert told.value.filename == str(path)


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target").touch()
    for path in (tmp_path / "link", Path(os.devnull)):
        with OutputFile(path) as output:
            output.write("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "text"
    assert not Path(os.devnull).is_file()


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]):
    with OutputFile(STDOUT) as output:
        output.write("text\n")
    assert capsys.readouterr().out == "text\n"
