"""Terms of a step on a device that is known from its figures."""

from __future__ import annotations

from ...hardware import Hardware
from ...specs import Cast, LayerPrecision
from .._inventory import Product, Traffic
from ._attention_traffic import attention_traffic
from ._cast_traffic import bits_of, cast_traffic
from ._engines import Engine, engine_of
from ._families import ATTENTION
from ._roofline import Roofline
from ._site import Site, casts_of, traffic_term
from ._terms import TimeTerm

_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
#: Operators that a 16-bit recipe runs in fp32; the residual additions are told apart by nothing and counted narrow.
_IN_FP32 = ("norm", "softmax", "loss", "exp", "log", "sum", "embedding_dense_backward")


class DeviceClock:
    """Terms of a device that is known from its figures."""

    def __init__(self, hardware: Hardware, compute: str) -> None:
        self._hardware, self._compute = hardware, compute
        self._wide = _BYTES[compute]
        self._roofline = Roofline(hardware)
        self._emulated: dict[str, None] = {}

    def site(self, name: str, site: Site, precision: LayerPrecision | None) -> list[TimeTerm]:
        """The products of a site, then its casts."""
        terms: list[TimeTerm] = []
        is_emulated = False
        for product in site.products:
            casts = casts_of(product, precision)
            engine = self._engine(product, casts, precision)
            is_emulated = is_emulated or (any(casts) and not engine.is_native)
            terms.append(self._product(name, product, casts, engine))
        if precision is not None:
            terms += self._casts(name, site, precision, is_emulated=is_emulated)
        return terms

    def traffic(self, traffic: Traffic) -> TimeTerm:
        """An operator that multiplies nothing."""
        narrow = self._wide < 4 and traffic.pass_ != "update" and not any(p in traffic.operation for p in _IN_FP32)
        moved = (traffic.read + traffic.written) * (self._wide / 4 if narrow else 1.0)
        seconds, bound = self._roofline.traffic(moved, traffic.calls)
        return traffic_term(traffic, self._compute if narrow else "fp32", seconds, bound, int(moved))

    def notes(self) -> tuple[str, ...]:
        """What was assumed and what is emulated."""
        return (*self._roofline.notes, *self._emulated)

    def _engine(
        self, product: Product, casts: tuple[Cast | None, Cast | None], precision: LayerPrecision | None
    ) -> Engine:
        engine = engine_of(casts, self._compute, self._hardware, (product.n, product.k))
        if precision is not None and precision.accumulator is not None and any(casts) and engine.is_native:
            plain = engine_of((None, None), self._compute, self._hardware, (product.n, product.k))
            engine = Engine(engine.format, plain.rate, is_native=False, reason="a narrower accumulator was asked for")
        if not engine.is_native:
            self._emulated[f"{engine.format} is emulated ({engine.reason}): exact numbers, no gain in speed"] = None
        return engine

    def _product(self, name: str, product: Product, casts: tuple[Cast | None, Cast | None], engine: Engine) -> TimeTerm:
        times = 2 if product.recomputed else 1
        left, right, out = product.elements
        sizes = [bits_of(cast) / 8 if cast is not None and engine.is_native else float(self._wide) for cast in casts]
        result = 4 if product.gemm == "wgrad" else self._wide
        if product.kind in ATTENTION:
            left, right, out = attention_traffic(product)
        moved = times * (left * sizes[0] + right * sizes[1] + out * result)
        flops = times * product.flops
        seconds, bound = self._roofline.product(engine.rate, flops, moved, times * product.calls)
        return TimeTerm(
            site=name,
            operation=product.gemm,
            format=engine.format,
            engine="native" if engine.is_native else "emulated",
            seconds=seconds,
            bound=bound,
            flops=flops,
            bytes=int(moved),
        )

    def _casts(self, name: str, site: Site, precision: LayerPrecision, *, is_emulated: bool) -> list[TimeTerm]:
        total, moved = 0.0, 0.0
        pairs = (
            (precision.fprop_input, precision.wgrad_input),
            (precision.fprop_weight, precision.dgrad_weight),
            (precision.dgrad_grad_output, precision.wgrad_grad_output),
        )
        names: dict[str, None] = {}
        for pair, elements in zip(pairs, site.elements, strict=True):
            cost = cast_traffic(pair, self._wide, is_emulated=is_emulated)
            seconds, _ = self._roofline.traffic(cost.bytes * elements, cost.kernels * site.calls)
            total, moved = total + seconds, moved + cost.bytes * elements
            names |= {str(cast): None for cast in pair if cast is not None}
        if not names:
            return []
        told = ", ".join(names)
        return [TimeTerm(site=name, operation="cast", format=told, seconds=total, bound="cast", bytes=int(moved))]
