"""One job per file, and functions that fit on a screen."""

from __future__ import annotations

import ast

from tests.architecture import tree

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 8
WITHOUT_A_JOB = {"base", "common", "helper", "helpers", "misc", "shared", "util", "utils"}


def parameter_count(function: tree.Function) -> int:
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([argument for argument in named if argument.arg not in {"self", "cls", "ctx"}])


def code_lines(function: tree.Function) -> int:
    """Lines of a function without its docstring, which is worth its length."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    docstring = function.body[0]
    return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def test_files_are_small():
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in tree.source_files()}
    assert lines
    assert not {path: count for path, count in lines.items() if count > MAX_FILE_LINES}, "do they still have one job?"


def test_functions_are_small():
    functions = [(tree.dotted(path), each) for path in tree.source_files() for each in tree.functions(path)]
    assert functions
    too_long = [
        f"{module}:{function.lineno}: {function.name} has {lines} lines"
        for module, function in functions
        if (lines := code_lines(function)) > MAX_FUNCTION_LINES
    ]
    too_wide = [
        f"{module}:{function.lineno}: {function.name} has {count} parameters"
        for module, function in functions
        if (count := parameter_count(function)) > MAX_PARAMETERS
    ]
    assert not too_long + too_wide


def test_no_module_without_a_job():
    found = [tree.dotted(path) for path in tree.source_files() if path.stem.strip("_") in WITHOUT_A_JOB]
    folders = [tree.dotted(path) for path in tree.PACKAGE.rglob("*") if path.is_dir() and path.name in WITHOUT_A_JOB]
    assert not found + folders, "name a module after its one job"
