"""Who may import whom, and what an import may cost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.architecture import tree

STANDARD_LIBRARY_ONLY = ("formats", "hardware", "records")
HEAVY = (
    "cyclopts",
    "jinja2",
    "plotly",
    "pydantic",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "torchao",
    "transformers",
)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree.SOURCE)}
    return subprocess.run(command, cwd=tree.ROOT, env=environment, capture_output=True, text=True, check=False)


def loaded_by(statement: str, names: tuple[str, ...]) -> list[str]:
    """Which of the modules an import statement loads, in a fresh interpreter."""
    program = f"import sys; {statement}; print(*[name for name in {names!r} if name in sys.modules])"
    finished = run(sys.executable, "-c", program)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.split()


def imported_modules(path: str) -> set[str]:
    """Top-level names of the absolute imports of every file of a package, those inside functions included."""
    names: set[str] = set()
    for file in sorted((tree.PACKAGE / path).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names.add(node.module.split(".")[0])
    return names


def test_import_contracts_hold():
    finished = run(sys.executable, "-c", "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())")
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_row_0_imports_the_standard_library_only(package: str):
    foreign = imported_modules(package) - sys.stdlib_module_names - {"mixprec"}
    assert not foreign, f"mixprec.{package} imports {sorted(foreign)}; row 0 may load the standard library only"


def test_importing_mixprec_loads_nothing_for_later():
    assert loaded_by("import mixprec", HEAVY) == []


@pytest.mark.parametrize("module", ["mixprec.formats", "mixprec.hardware", "mixprec.records", "mixprec.report"])
def test_what_reads_a_record_needs_no_torch(module: str):
    assert loaded_by(f"import {module}", ("torch", "sklearn")) == []


def test_importing_every_package_has_no_output():
    finished = run(sys.executable, "-W", "error", "-c", "; ".join(f"import {name}" for name in tree.packages()))
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")
