"""Seconds on a device that is known from its figures: the slowest of rate, bandwidth and launch."""

from __future__ import annotations

from ...hardware import Figure, Hardware
from ._terms import Bound

#: Where no source tells a device's own shares.
ASSUMED_GEMM = Figure(0.78, "assumed: torchao roofline_utils.py takes 0.78 of the peak for every GPU")
ASSUMED_BANDWIDTH = Figure(0.92, "assumed: torchao roofline_utils.py takes 0.92 of the bandwidth for every GPU")


class Roofline:
    """Turns FLOPs, bytes and calls into seconds, and remembers what it had to assume.

    Args:
        hardware: whose figures are used.

    Raises:
        ValueError: the device has no bandwidth.
    """

    def __init__(self, hardware: Hardware) -> None:
        if hardware.bandwidth is None:
            raise ValueError(f"{hardware.name} has no bandwidth, so no time can be predicted: add one in a TOML file")
        self.hardware = hardware
        self._bytes_per_second = hardware.bandwidth.value * self._bandwidth_share()
        self.notes: dict[str, None] = {}
        if "bandwidth" not in hardware.attainable:
            self.notes[f"attainable bandwidth of {hardware.name} {ASSUMED_BANDWIDTH.source}"] = None
        if hardware.launch is None:
            self.notes[f"what a kernel's launch costs on {hardware.name} is not known: left out"] = None

    def product(self, rate: str, flops: float, moved: float, calls: int) -> tuple[float, Bound]:
        """Seconds of all calls of a product, and what bounds them.

        Args:
            rate: the format that it is multiplied in.
            flops: of all calls.
            moved: bytes read and written, of all calls.
            calls: kernels started.

        Raises:
            ValueError: the device has no such rate.
        """
        peak = self.hardware.rate_of(rate)
        if peak is None:
            raise ValueError(f"{self.hardware.name} has no rate of {rate} products")
        share = self.hardware.share_of(rate)
        if share is None:
            share = ASSUMED_GEMM
            self.notes[f"attainable share of {self.hardware.name}'s {rate} products {share.source}"] = None
        times: dict[Bound, float] = {
            "compute": flops / (peak.value * share.value),
            "bandwidth": moved / self._bytes_per_second,
            "launch": self._launches(calls),
        }
        bound = max(times, key=lambda name: times[name])
        return times[bound], bound

    def traffic(self, moved: float, calls: int) -> tuple[float, Bound]:
        """Seconds of all calls of what moves bytes and multiplies nothing."""
        moving, starting = moved / self._bytes_per_second, self._launches(calls)
        return (moving, "bandwidth") if moving >= starting else (starting, "launch")

    def _launches(self, calls: int) -> float:
        return 0.0 if self.hardware.launch is None else calls * self.hardware.launch.value

    def _bandwidth_share(self) -> float:
        return self.hardware.attainable.get("bandwidth", ASSUMED_BANDWIDTH).value
