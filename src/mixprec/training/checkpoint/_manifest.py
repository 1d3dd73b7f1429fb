"""The list of a checkpoint's files, by which damage is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ...records import FileFacts, read_facts

MANIFEST = "manifest.json"
#: Of the layout of the folder; a state inside has its own.
LAYOUT = 1


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a checkpoint says of itself.

    Attributes:
        step: applied steps.
        number: of the checkpoint among those of its folder, counted from 1 in the order of saving.
        facts: versions, CPU and threads of the process that saved.
        files: size and SHA-256 of each file.
    """

    step: int
    number: int
    facts: Mapping[str, str | int]
    files: Mapping[str, FileFacts]

    def to_text(self) -> str:
        """As JSON that holds a hash of itself: no byte of it can change unseen.

        Example:
            >>> text = Manifest(step=1, number=1, facts={}, files={}).to_text()
            >>> Manifest.from_text(text).step
            1
            >>> Manifest.from_text(text.replace('"step": 1', '"step": 3'))
            Traceback (most recent call last):
            ValueError: its bytes have changed: ...
        """
        body = {
            "layout": LAYOUT,
            "step": self.step,
            "number": self.number,
            "facts": dict(self.facts),
            "files": {name: asdict(facts) for name, facts in self.files.items()},
        }
        return _sealed(body)

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        """Read it back.

        Raises:
            ValueError: a byte was changed, or a newer version wrote it.
        """
        try:
            body = json.loads(text)
            seal = body.pop("sha256")
        except (ValueError, KeyError, AttributeError, TypeError):
            raise ValueError("it is no manifest of a checkpoint, or was cut off") from None
        if text != _sealed(body):
            raise ValueError(f"its bytes have changed: they do not give SHA-256 {seal}")
        if body.get("layout") != LAYOUT:
            raise ValueError(
                f"it has layout {body.get('layout')}, and this version of mixprec reads {LAYOUT}: upgrade mixprec"
            )
        files = cast("dict[str, dict[str, Any]]", body["files"])
        facts = {name: FileFacts(**entry) for name, entry in files.items()}
        return cls(step=body["step"], number=body["number"], facts=body["facts"], files=facts)

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """Read a folder's.

        Raises:
            ValueError: it is missing, cannot be read, or was changed; the message begins with the file's name.
        """
        try:
            return cls.from_text((folder / MANIFEST).read_bytes().decode("utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{MANIFEST} is missing") from None
        except (OSError, ValueError) as error:
            raise ValueError(f"{MANIFEST}: {error}") from None

    def misfits(self, folder: Path, *, hashed: bool = True) -> list[str]:
        """What of a folder's files is not as it was written: missing, of another size, of other bytes.

        Args:
            folder: of the checkpoint.
            hashed: whether every byte is read; else sizes alone are compared.
        """
        found = (_misfit(folder / name, expected, hashed) for name, expected in self.files.items())
        return [misfit for misfit in found if misfit]


def _sealed(body: Mapping[str, Any]) -> str:
    plain = json.dumps(body, indent=1)
    seal = hashlib.sha256(plain.encode()).hexdigest()
    return json.dumps({**body, "sha256": seal}, indent=1) + "\n"


def _misfit(file: Path, expected: FileFacts, hashed: bool) -> str:
    try:
        size = file.stat().st_size
        if size != expected.size:
            how = "cut off" if size < expected.size else "longer than it was written"
            return f"{file.name} is {how}: got {size:,} bytes, expected {expected.size:,}"
        got = read_facts(file) if hashed else expected
    except FileNotFoundError:
        return f"{file.name} is missing"
    except OSError as error:
        return f"{file.name} cannot be read: {error.strerror}"
    if got != expected:
        return f"{file.name} has changed bytes: got SHA-256 {got.sha256[:16]}..., expected {expected.sha256[:16]}..."
    return ""
