"""One writer for each run folder: a lock that the system releases however the process ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import weakref
from pathlib import Path
from typing import Any, cast

LOCK = ".lock"
#: What file systems without locks answer.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class RunLock:
    """Held by the one process that writes a run folder, until it is released, collected, or the process ends.

    Within a process the lock may be taken again: a loop that is started anew in a notebook goes on in its folder. A
    process that is forked (a loader's worker) holds no part of it. A lock that a killed process held is free.

    Args:
        folder: of the run; it must exist.

    Attributes:
        note: what there is to tell where the file system has no locks; empty where the lock is held.

    Raises:
        ValueError: another process writes the folder; the message says which.
        OSError: the folder cannot be written.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> first, again = RunLock(folder), RunLock(folder)
        >>> again.release()
        >>> first.note
        ''
    """

    def __init__(self, folder: str | Path) -> None:
        self.note = ""
        path = Path(folder) / LOCK
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sign(handle)
        except BlockingIOError:
            shared = _own(handle)
            if shared is None:
                message = _refusal(path, handle)
                os.close(handle)
                raise ValueError(message) from None
            os.close(handle)
            handle = shared
        except OSError as error:
            os.close(handle)
            if error.errno not in _WITHOUT_LOCKS:
                raise
            self.note = (
                f"run folder {folder} is on a file system without locks ({error.strerror}): see to it that no other "
                "process writes there"
            )
            return
        self._close = weakref.finalize(self, os.close, handle)
        held: weakref.ref[RunLock] = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _release(held))

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if not self.note:
            self._close()


def last_writer(folder: str | Path) -> tuple[int, str] | None:
    """Process number and host of whoever wrote a run folder last, or writes it now; ``None`` where that is unknown."""
    try:
        found: object = json.loads((Path(folder) / LOCK).read_bytes())
    except (OSError, ValueError):
        return None
    holder = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return (holder["pid"], holder["host"]) if {"pid", "host"} <= holder.keys() else None


def _release(held: weakref.ref[RunLock]) -> None:
    lock = held()
    if lock is not None:
        lock.release()


def _sign(handle: int) -> None:
    """Write who holds the lock, for those who are refused, and for this process to find it again."""
    signed = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(handle, 0)
    os.pwrite(handle, (json.dumps({**signed, "handle": handle}) + "\n").encode(), 0)


def _holder(handle: int) -> dict[str, Any]:
    try:
        found: object = json.loads(os.pread(handle, 4096, 0))
    except ValueError:  # it is being written, or never was
        return {}
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _own(handle: int) -> int | None:
    """A second handle of the lock, where this very process holds it."""
    holder = _holder(handle)
    if (holder.get("pid"), holder.get("host")) != (os.getpid(), socket.gethostname()):
        return None
    held = holder.get("handle")
    try:
        if not isinstance(held, int) or not os.path.sameopenfile(held, handle):
            return None
        return os.dup(held)
    except OSError:
        return None


def _refusal(path: Path, handle: int) -> str:
    holder = _holder(handle)
    who = "another process"
    if "pid" in holder:
        who = f"process {holder['pid']} on {holder.get('host')}, since {holder.get('since')}"
    return (
        f"run folder {path.parent} is being written by {who}: give run= another folder, or end that process first; "
        "of a run of several processes one alone writes (give run= where the rank is 0, None elsewhere)"
    )
