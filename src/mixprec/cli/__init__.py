"""The command line: parse, call one function, print."""

from ._main import main

__all__ = ["main"]
