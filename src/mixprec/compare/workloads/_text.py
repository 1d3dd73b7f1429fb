"""Text for language models: read, checked and numbered by character."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .._utf8 import utf8_text


@dataclass(frozen=True, kw_only=True)
class CharacterText:
    """A text as character numbers.

    Attributes:
        name: the file, or ``"pydoc_data.topics"``.
        sha256: of the UTF-8 bytes; tells two texts apart (Python's own documentation changes with its version).
        characters: the vocabulary, in code point order.
        ids: int64 [length], position of each character in ``characters``.
    """

    name: str
    sha256: str
    characters: str
    ids: Tensor


def read_characters(path: str | Path | None, *, at_least: int) -> CharacterText:
    """Read a text and number its characters.

    Args:
        path: a UTF-8 file; ``None`` takes the text of Python's own documentation, ``pydoc_data.topics``.
        at_least: the fewest characters that will do.

    Raises:
        ValueError: if the file is empty, too short or not UTF-8.
        OSError: if the file cannot be read.

    Example:
        >>> text = read_characters(None, at_least=1000)
        >>> text.name, int(text.ids.max()) + 1 == len(text.characters)
        ('pydoc_data.topics', True)
    """
    if path is None:
        text, name = _python_documentation(), "pydoc_data.topics"
    else:
        text, name = utf8_text(Path(path).read_bytes(), Path(path)), str(path)
    if len(text) < at_least:
        found = "is empty" if not text else f"has {len(text)} characters"
        raise ValueError(f"{name} {found}: the workload needs a text of at least {at_least} characters")
    points = torch.frombuffer(bytearray(text.encode("utf-32-le")), dtype=torch.int32)
    characters, ids = torch.unique(points, return_inverse=True)
    return CharacterText(
        name=name,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        characters="".join(map(chr, characters.tolist())),
        ids=ids,
    )


def _python_documentation() -> str:
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))
