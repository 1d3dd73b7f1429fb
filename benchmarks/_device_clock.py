"""Times on a device, where calls return before they are done."""

from collections.abc import Callable, Mapping

import torch

from ._timing import Timing, measure


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was asked."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_on(
    device: torch.device, candidates: Mapping[str, Callable[[], object]], baseline: str, rounds: int, repeats: int
) -> dict[str, Timing]:
    """As `measure`, of so many calls in a row and a wait: what a single wait costs does not count."""

    def repeated(call: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            for _ in range(repeats):
                call()
            finish(device)

        return run

    timings = measure({name: repeated(call) for name, call in candidates.items()}, baseline, rounds)
    return {
        name: Timing(
            ratio=timing.ratio,
            low=timing.low,
            high=timing.high,
            best=timing.best,
            milliseconds=timing.milliseconds / repeats,
        )
        for name, timing in timings.items()
    }
