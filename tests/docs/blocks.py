"""The fenced blocks of a page, and what a comment before a block says of running it.

Comments right before a block, which no renderer shows, are lines of:

    <!-- not run: WHY -->
    <!-- run with: TEXT -> OTHER; TEXT -> OTHER -->
    <!-- run anew -->                                    what earlier blocks made is not there
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tests.architecture import tree

LANGUAGES = ("python", "console")
#: Of blocks that are no program: settings, what is printed, what lies in a folder.
OTHERS = ("toml", "yaml", "text", "markdown")
_FENCED = re.compile(
    r"^(?P<comments>(?:<!-- [^\n]* -->\n)*)(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!-- (.*) -->")
_NOT_RUN, _RUN_WITH, _ANEW = "not run: ", "run with: ", "run anew"


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block: its language, its first line's number on the page, its text as it is to be run."""

    language: str
    line: int
    text: str
    reason: str = ""
    """Why it is not run; empty where it is."""

    is_anew: bool = False

    def commands(self) -> list[str]:
        """The commands of a console block; ``$`` marks them where their output is shown too."""
        lines = self.text.replace("\\\n", " ").splitlines()
        has_output = any(line.startswith("$ ") for line in lines)
        return [line.removeprefix("$ ") for line in lines if not has_output or line.startswith("$ ")]


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [tree.ROOT / "README.md", *sorted((tree.ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> list[Block]:
    """The blocks of a page's text, in order.

    Raises:
        ValueError: of a comment that begins like these and is none, or that changes what is not there.
    """
    return [_block(page, found) for found in _FENCED.finditer(page)]


def is_well_fenced(page: str) -> bool:
    """Whether every fence belongs to a block."""
    return "\n```" not in _FENCED.sub("", page)


def _block(page: str, found: re.Match[str]) -> Block:
    line = page.count("\n", 0, found.start("text")) + 1
    block = Block(language=found["language"], line=line, text=found["text"])
    for comment in _COMMENT.findall(found["comments"]):
        block = _told(block, comment)
    return block


def _told(block: Block, comment: str) -> Block:
    """The block as a comment wants it."""
    if comment.startswith(_NOT_RUN):
        return replace(block, reason=comment.removeprefix(_NOT_RUN))
    if comment == _ANEW:
        return replace(block, is_anew=True)
    if comment.startswith(_RUN_WITH):
        text = block.text
        for change in comment.removeprefix(_RUN_WITH).split("; "):
            old, _, new = change.partition(" -> ")
            if not new or old not in text:
                raise ValueError(f"line {block.line}: {change!r} changes nothing of the block; expected TEXT -> OTHER")
            text = text.replace(old, new)
        return replace(block, text=text)
    if comment.startswith(("not run", "run")):
        raise ValueError(f"line {block.line}: got {comment!r}; expected 'not run: WHY', 'run with: ...' or 'run anew'")
    return block
