"""The blocks of every page run: its Python and its commands, in their order, in one folder and one namespace."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mixprec.cli import main
from tests.architecture import tree
from tests.docs.blocks import LANGUAGES, OTHERS, Block, blocks, is_well_fenced, pages
from tests.docs.supposed_names import names

SUPPOSED = Path(__file__).parent / "supposed"
SUPPOSE_RUNS = {"docs/monitor/recorder.md", "docs/report.md"}


def page_name(path: Path) -> str:
    return path.relative_to(tree.ROOT).as_posix()


def run_blocks(path: Path) -> list[Block]:
    return [block for block in blocks(path.read_text(encoding="utf-8")) if block.language in LANGUAGES]


PAGES = [path for path in pages() if any(not block.reason for block in run_blocks(path))]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of a comparison, for the pages that suppose one."""
    folder = tmp_path_factory.mktemp("recorded") / "a"
    assert (
        main(["compare", str(SUPPOSED / "my.py"), "--recipes", "fp32,bf16", "--seeds", "2", "--out", str(folder)]) == 0
    )
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a reader is: with a workload, a script and a model of theirs."""
    for path in SUPPOSED.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    save_file({f"h.{i}.weight": torch.randn(64, 64) for i in range(3)}, tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    return tmp_path


@pytest.fixture
def runs(folder: Path, recorded: Path, path: Path) -> None:
    if page_name(path) in SUPPOSE_RUNS:
        for name in "ab":
            shutil.copytree(recorded, folder / "runs" / name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning")  # dcp in one process
@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_the_blocks_of_a_page_run(path: Path, folder: Path) -> None:
    given = names(page_name(path), folder)
    for block in run_blocks(path):
        if not block.reason:
            given = names(page_name(path), folder) if block.is_anew else given
            run_python(path, block, given) if block.language == "python" else run_commands(path, block)


def run_python(path: Path, block: Block, given: dict[str, object]) -> None:
    # Empty lines first, so that a traceback has the page's own line numbers.
    exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), given)


def run_commands(path: Path, block: Block) -> None:
    for command in block.commands():
        words = shlex.split(command, comments=True)
        assert words[0] == "mixprec", f"{page_name(path)}, line {block.line}: {words[0]} is not run here: say why not"
        # In this process, which has torch already; the shell is there for what only a shell does.
        run = subprocess.run(command, shell=True, check=False).returncode if "|" in words else main(words[1:])
        assert run == 0, f"{page_name(path)}, line {block.line}: {command}"


@pytest.mark.parametrize("path", pages(), ids=page_name)
def test_every_block_says_what_it_is(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert is_well_fenced(page)
    assert [block.line for block in blocks(page) if block.language not in (*LANGUAGES, *OTHERS)] == []
