"""Files and folders that are on the disk, not only in its cache, when a call returns."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 1 << 22


@dataclass(frozen=True)
class FileFacts:
    """What a file's bytes are known by.

    Attributes:
        size: in bytes.
        sha256: in hexadecimal digits.
    """

    size: int
    sha256: str


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> FileFacts:
    """Write a new file and wait until the disk has it.

    Raises:
        OSError: it is there already, or cannot be written whole.
    """
    digest, size = hashlib.sha256(), 0
    with open(path, "xb") as file:
        for chunk in chunks:
            digest.update(chunk)
            size += file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return FileFacts(size, digest.hexdigest())


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a kill leaves either the old one or the new one.

    Raises:
        OSError: it cannot be written whole.
    """
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    write_file(new, [data])
    os.replace(new, path)
    sync_folder(path.parent)


def read_facts(path: Path) -> FileFacts:
    """What a file's bytes are now.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return FileFacts(size, digest.hexdigest())


def sync_folder(path: Path) -> None:
    """Wait until the disk has a folder's list of names.

    Raises:
        OSError: it cannot.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, and wait until the disk has them.

    Raises:
        OSError: it cannot be made, or is a file.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_folder(folder.parent)
