"""Opening a page in headless Chromium: what it draws and what it complains of."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Nothing but the page: no sandbox (containers have none), no first-run pages, no network of Chromium's own.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-quic", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--enable-logging=stderr", "--v=0"),
)
#: Timers run at once, and so many of their milliseconds.
DRAWN = "--virtual-time-budget=10000"


@dataclass(frozen=True)
class Opened:
    """The document after its scripts ran, and the lines of its console."""

    dom: str
    console: tuple[str, ...]


def executable() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def open_page(page: Path, profile: Path, *, width: int = 1280, until_loaded: bool = False) -> Opened:
    """Load a file and wait until it is drawn, or only loaded; `profile` is an empty folder for Chromium's own files."""
    program = executable()
    assert program is not None, f"none of {', '.join(NAMES)} is installed"
    command = [
        program,
        *FLAGS,
        *(() if until_loaded else (DRAWN,)),
        f"--user-data-dir={profile}",
        f"--window-size={width},1600",
        "--dump-dom",
        page.as_uri(),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return Opened(finished.stdout, tuple(line for line in finished.stderr.splitlines() if "CONSOLE" in line))
