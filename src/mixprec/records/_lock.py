"""One writer for each run folder: a lock that the system releases however the process ends."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

LOCK = ".lock"
#: What file systems without locks answer.
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class RunLock:
    """Held by the one process that writes a run folder, until it is released, collected, or the process ends.

    Within a process the lock may be taken again: a loop that is started anew in a notebook goes on in its folder. A
    process that is forked (a loader's worker) holds no part of it. A lock that a killed process held is free, and the
    folder tells that nobody closed it.

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
            _take(handle)
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
        self._close = weakref.finalize(self, _close, handle, path)
        held: weakref.ref[RunLock] = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _release(held))

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if not self.note:
            self._close()


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Who wrote a run folder last.

    Attributes:
        pid: of the process.
        host: that it ran on.
        since: when it began.
        state: ``"writing"``: it still does; ``"closed"``: it has ended as processes end; ``"gone"``: it has ended
            without a word, by SIGKILL or with its machine; ``"unknown"``: nobody wrote down which.
    """

    pid: int
    host: str
    since: str = ""
    state: Literal["writing", "closed", "gone", "unknown"] = "unknown"


def last_writer(folder: str | Path) -> Writer | None:
    """Who wrote a run folder last, or writes it now; ``None`` where that is unknown.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> last_writer(folder) is None
        True
        >>> lock = RunLock(folder)
        >>> last_writer(folder).state
        'writing'
        >>> lock.release()
        >>> last_writer(folder).state
        'closed'
    """
    try:
        handle = os.open(Path(folder) / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder = _holder(handle)
        if not {"pid", "host"} <= holder.keys():
            return None
        pid, host, since = holder["pid"], str(holder["host"]), str(holder.get("since", ""))
        return Writer(pid=pid, host=host, since=since, state=_state(handle, holder))
    finally:
        os.close(handle)


def _state(handle: int, holder: dict[str, Any]) -> Literal["writing", "closed", "gone", "unknown"]:
    if "open" not in holder:
        return "unknown"
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "writing"
    except OSError:
        return "unknown"
    return "gone" if holder["open"] else "closed"


def _close(handle: int, path: Path) -> None:
    """Let go of the lock; where this process holds no other part of it, write down that the folder is closed."""
    os.close(handle)
    try:
        last = os.open(path, os.O_RDWR)
    except OSError:  # the folder is gone
        return
    try:
        fcntl.flock(last, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder = _holder(last)
        if (holder.get("pid"), holder.get("host")) == (os.getpid(), socket.gethostname()):
            _write(last, {**holder, "open": False})
    except OSError:  # another part of it is held, or another process was quicker
        pass
    finally:
        os.close(last)


def _release(held: weakref.ref[RunLock]) -> None:
    lock = held()
    if lock is not None:
        lock.release()


def _take(handle: int) -> None:
    """Take the lock; one that is held for a moment only, by who looks whether it is held, is waited for."""
    for pause in (0.01, 0.05):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sign(handle: int) -> None:
    """Write who holds the lock, for those who are refused, and for this process to find it again."""
    signed = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    _write(handle, {**signed, "handle": handle, "open": True})


def _write(handle: int, holder: dict[str, Any]) -> None:
    os.ftruncate(handle, 0)
    os.pwrite(handle, (json.dumps(holder) + "\n").encode(), 0)


def _holder(handle: int) -> dict[str, Any]:
    try:
        found: object = json.loads(os.pread(handle, 4096, 0))
    except (OSError, ValueError):  # it is being written, or never was, or is no file
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
