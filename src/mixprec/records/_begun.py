"""What a run of ``mixprec train`` began with, kept in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ._durable_file import replace_file

_FILE, _SCHEMA = "training.json", 1


@dataclass(frozen=True, kw_only=True)
class BegunTraining:
    """What decides a run's numbers.

    Attributes:
        workload: its name, or that of its file.
        title: what the workload calls itself.
        data: what it says of its data.
        recipe: TOML, as it was asked for.
        steps: to be applied.
        seed: of everything that is drawn.
        device: where.
    """

    workload: str
    title: str
    data: Mapping[str, str]
    recipe: str
    steps: int
    seed: int
    device: str


def read_begun(folder: str | Path) -> BegunTraining | None:
    """What the folder's run began with; ``None`` where ``mixprec train`` has begun none.

    Raises:
        ValueError: it cannot be read, or was written by a newer version.
        OSError: likewise.
    """
    file = Path(folder) / _FILE
    try:
        found = cast("dict[str, Any]", json.loads(file.read_bytes()))
        schema = found.pop("schema")
        if schema != _SCHEMA:
            raise ValueError(f"its schema is {schema}, this version reads {_SCHEMA}")
        return BegunTraining(**found)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{file} cannot be read ({error}): what the run began with is unknown") from error


def write_begun(folder: str | Path, begun: BegunTraining) -> None:
    """Keep what a run begins with; a kill leaves the file whole or not at all.

    Raises:
        OSError: it cannot be written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> begun = BegunTraining(
        ...     workload="gpt", title="gpt", data={}, recipe='name = "fp32"', steps=9, seed=0, device="cpu"
        ... )
        >>> write_begun(folder, begun)
        >>> read_begun(folder) == begun
        True
    """
    text = json.dumps({"schema": _SCHEMA, **asdict(begun)}, indent=2)
    replace_file(Path(folder) / _FILE, f"{text}\n".encode())
