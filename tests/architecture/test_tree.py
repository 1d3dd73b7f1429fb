"""What the tracked files may say: nothing about one machine, no dead links, examples that parse."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture import tree

# Written so that this file does not match itself.
MACHINE_PATHS = re.compile("|".join("/" + name for name in ("work/", "root/", r"home/\w", r"Users/\w", "tmp/venv")))
INDEX_OPTIONS = re.compile(r"^\s*-{1,2}(?:i|f|index-url|extra-index-url|find-links)\b", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    return [path for path in tree.tracked_files() if path.suffix == ".md"]


def relative(path: Path) -> str:
    return str(path.relative_to(tree.ROOT))


def test_no_file_names_a_path_of_one_machine():
    found = []
    for path in tree.tracked_files():
        text = tree.text_of(path) or ""
        found += [f"{relative(path)}: {match.group()}" for match in MACHINE_PATHS.finditer(text)]
    assert not found


def test_no_package_index_is_named():
    for name in ("constraints.txt", "Makefile", "pyproject.toml"):
        text = (tree.ROOT / name).read_text(encoding="utf-8")
        assert not INDEX_OPTIONS.search(text), f"{name}: where packages come from is the environment's choice"


def test_torch_is_pinned_by_its_public_version():
    lines = (tree.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.startswith("torch==")]
    assert len(pins) == 1, pins
    assert "+" not in pins[0], "a local version (+cpu) cannot be installed everywhere"


@pytest.mark.parametrize("path", documents(), ids=relative)
def test_links_lead_somewhere(path: Path):
    text = path.read_text(encoding="utf-8")
    targets = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]
    dead = [target for target in targets if not (path.parent / target).exists()]
    assert not dead


@pytest.mark.parametrize("path", documents(), ids=relative)
def test_python_examples_parse(path: Path):
    for number, block in enumerate(PYTHON_BLOCK.findall(path.read_text(encoding="utf-8"))):
        assert compile(block, f"{path.name}[{number}]", "exec") is not None


def test_the_changelog_knows_this_version():
    version = tomllib.loads((tree.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{version}]" in changelog
