"""What the architecture tests look at: the repository's own files, read as text and as syntax."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "mixprec"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def source_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def packages() -> list[str]:
    """Dotted names of all packages, the root first."""
    return [dotted(path.parent) for path in sorted(PACKAGE.rglob("__init__.py"), key=lambda path: path.parent.parts)]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function):
            yield node


def tracked_files() -> list[Path]:
    """The files under version control; without git (a source archive), those of the known folders."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True)
        paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    else:
        folders = ("src", "csrc", "tests", "benchmarks", "docs", "examples")
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return [path for path in paths if path.is_file()]


def text_of(path: Path) -> str | None:
    """A file's text, or None where it is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
