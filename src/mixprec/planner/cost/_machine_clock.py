"""Terms of a step on a machine that was measured."""

from __future__ import annotations

from ...hardware import Hardware
from ...specs import LayerPrecision
from .._inventory import Traffic
from ._machine import Machine
from ._site import Site, casts_of, traffic_term
from ._terms import TimeTerm


class MachineClock:
    """Terms of a machine that was measured."""

    def __init__(self, hardware: Hardware, compute: str) -> None:
        if hardware.measured is None:
            raise ValueError(f"{hardware.name} was not measured: run `mixprec calibrate`")
        self._compute, self._hardware = compute, hardware
        self._machine = Machine(hardware.measured, compute)

    def site(self, name: str, site: Site, precision: LayerPrecision | None) -> list[TimeTerm]:
        """The products of a site, then what its casts add."""
        terms: list[TimeTerm] = []
        for product in site.products:
            casts = casts_of(product, precision)
            told = " x ".join(dict.fromkeys(str(cast or self._compute) for cast in casts))
            times = 2 if product.recomputed else 1
            seconds = times * self._machine.product(product, precision, site)
            is_native = not any(casts) and (self._compute == "fp32" or self._is_native)
            terms.append(
                TimeTerm(
                    site=name,
                    operation=product.gemm,
                    format=told,
                    engine="native" if is_native else "emulated",
                    seconds=seconds,
                    bound="compute",
                    flops=times * product.flops,
                )
            )
        seconds = self._machine.casts(site.kind, precision, site.elements, site.calls)
        if seconds:
            told = self._compute if precision is None else str(precision.fprop_input or precision.dgrad_grad_output)
            terms.append(TimeTerm(site=name, operation="cast", format=told, seconds=seconds, bound="cast"))
        return terms

    def traffic(self, traffic: Traffic) -> TimeTerm:
        """An operator that multiplies nothing."""
        seconds, moved = self._machine.traffic(traffic), traffic.read + traffic.written
        floor = self._machine.calling(traffic)
        return traffic_term(traffic, "fp32", seconds, "launch" if seconds <= 2 * floor else "bandwidth", moved)

    def notes(self) -> tuple[str, ...]:
        """What was taken for something else."""
        return tuple(self._machine.notes)

    @property
    def _is_native(self) -> bool:
        return self._hardware.rate_of(self._compute) is not None
