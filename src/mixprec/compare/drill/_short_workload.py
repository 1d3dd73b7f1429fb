"""A workload cut to the length of a drill's runs."""

from __future__ import annotations

from .._loading import WorkloadSource, load_workload

#: Steps of a run where nobody says how many.
DEFAULT_STEPS = 200


def short_workload(
    name: str, *, steps: int | None = None, data: str | None = None, device: str = "cpu"
) -> WorkloadSource:
    """Find a workload, with as many steps as were asked for, or else with 200 at most.

    Args:
        name: a built-in workload or a Python file.
        steps: of each run; ``None``: 200, or the workload's own where they are fewer.
        data: handed to a workload that takes ``data``.
        device: where it is built to find out.

    Raises:
        ValueError: as ``load_workload``.
        OSError: likewise.

    Example:
        >>> short_workload("resnet").steps, short_workload("resnet", steps=120).steps
        (200, 120)
    """
    source = load_workload(name, steps=steps, data=data)
    if steps is None and source.build(0, device).steps > DEFAULT_STEPS:
        return load_workload(name, steps=DEFAULT_STEPS, data=data)
    return source
