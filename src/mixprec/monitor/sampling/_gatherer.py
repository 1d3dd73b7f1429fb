"""Statistics of the tensors of one step, gathered where they lie and read later."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ... import kernels
from ...kernels import RawStatistics
from ...nn import SeenOperand
from ...records import StatisticsRecord
from ...tensors import TensorStatistics, read_statistics

SHORT_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
#: The exponent below which numbers of a dtype are subnormal.
_SMALLEST_NORMAL = {"fp32": -126, "bf16": -126, "fp16": -14}


@dataclass(frozen=True)
class Gathered:
    """One tensor's statistics: of the cast that is in use (``cast`` is its name), and of those that are not."""

    site: str
    role: str
    cast: str
    raw: RawStatistics


@dataclass(frozen=True)
class _Values:
    """What tells the values of a tensor from all others of a step: what one module returns, the next one takes.

    The reference to the memory is weak, and is no other memory's as long as it is held.
    """

    memory: StorageWeakRef
    version: int
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor) -> _Values:
        return cls(StorageWeakRef(x.untyped_storage()), x._version, int(x.storage_offset()), x.shape, x.stride())


class Gatherer:
    """Takes statistics of each tensor that it is shown, once a step for each site, role and cast: the first is told.

    So one micro-batch of several is told, one call of a module that is called often, and nothing twice that a
    recomputation shows again. Nothing waits for a device before ``read``.

    Args:
        sites: patterns of the sites that are sampled.
        what_if: casts that every tensor is held against besides.

    Attributes:
        own_seconds: time that taking statistics took [s]; of an accelerator, that of handing the work over.
        operands: how many tensors of forward and backward passes it was shown in this step.
    """

    def __init__(self, sites: Sequence[str], what_if: Sequence[str]) -> None:
        self._sites, self._what_if = tuple(sites), tuple(what_if)
        self._wanted: dict[str, bool] = {}
        self._seen: set[tuple[str, str, str]] = set()
        self._gathered: list[Gathered] = []
        self._known: dict[_Values, RawStatistics] = {}
        self.own_seconds, self.operands = 0.0, 0

    def wants(self, site: str) -> bool:
        """Whether a site is sampled."""
        known = self._wanted.get(site)
        if known is None:
            known = self._wanted[site] = any(fnmatchcase(site, pattern) for pattern in self._sites)
        return known

    def operand(self, seen: SeenOperand) -> None:
        """An operand of a converted layer, before its cast."""
        self.operands += 1
        key = (seen.site, seen.role, seen.name)
        if key in self._seen or not self.wants(seen.site):
            return
        started = time.perf_counter()
        is_plain = SHORT_NAMES.get(seen.x.dtype) == seen.cast
        in_use = () if is_plain else (seen.cast,)
        random = _no_random() if seen.random is None else seen.random
        what_if = [cast for cast in self._what_if if cast != seen.name]
        raw = kernels.statistics(
            _as_matrix(seen.x),
            [*in_use, *what_if],
            axis=seen.axis,
            random=random,
            stream=seen.stream,
            sign_stream=seen.sign_stream,
            amax=seen.amax,
        )
        self._add(key, raw, started)

    def tensor(self, site: str, role: str, x: Tensor) -> None:
        """A tensor that is used as it is: of a plain module, or a gradient."""
        name = SHORT_NAMES.get(x.dtype)
        if name is None or (site, role, name) in self._seen or not self.wants(site) or x.is_sparse or x.is_meta:
            return
        started = time.perf_counter()
        values = _Values.of(x)
        raw = self._known.get(values)
        if raw is None:
            what_if = [cast for cast in self._what_if if cast != name]
            raw = self._known[values] = kernels.statistics(_as_matrix(x), what_if, random=_no_random())
        self._add((site, role, name), raw, started)

    def has(self, site: str, role: str) -> bool:
        """Whether a tensor of a site was told in this step under this role."""
        return any((site, role, name) in self._seen for name in SHORT_NAMES.values())

    def forget(self) -> None:
        """The step is over, or dropped."""
        self._seen, self._gathered, self.operands = set(), [], 0
        self._known = {}

    def take(self) -> list[Gathered]:
        """What was gathered, for ``read_gathered``; begins anew."""
        gathered = self._gathered
        self.forget()
        return gathered

    def _add(self, key: tuple[str, str, str], raw: RawStatistics, started: float) -> None:
        self._seen.add(key)
        self._gathered.append(Gathered(*key, raw))
        self.own_seconds += time.perf_counter() - started


def read_gathered(gathered: Sequence[Gathered], *, recipe: str, seed: int, step: int) -> tuple[StatisticsRecord, ...]:
    """Records of what was gathered: one transfer for each device."""
    records: list[StatisticsRecord] = []
    for one, results in zip(gathered, read_statistics([one.raw for one in gathered]), strict=True):
        is_plain = SHORT_NAMES[one.raw.dtype] == one.cast
        names = [one.cast, *one.raw.casts] if is_plain else [one.cast, *one.raw.casts[1:]]
        if is_plain and one.raw.casts:
            results = (_unchanged(results[0], one.cast), *results)
        for i, (name, result) in enumerate(zip(names, results, strict=True)):
            records.append(_record(one, name, result, in_use=i == 0, identity=(recipe, seed, step)))
    return tuple(records)


def _record(
    one: Gathered, name: str, found: TensorStatistics, *, in_use: bool, identity: tuple[str, int, int]
) -> StatisticsRecord:
    recipe, seed, step = identity
    is_own = in_use and SHORT_NAMES[one.raw.dtype] == one.cast
    return StatisticsRecord(
        recipe=recipe,
        seed=seed,
        step=step,
        site=one.site,
        role=one.role,
        cast=name,
        in_use=in_use,
        elements=found.elements,
        zeros=found.zeros,
        nonfinite=found.nonfinite,
        amax=found.amax,
        flushed=found.flushed,
        subnormal=_own_subnormal(found, one.cast) if is_own else found.subnormal,
        saturated=found.saturated,
        sqnr_db=found.sqnr_db,
        relative_error=found.relative_error,
        bias=found.bias,
        exponents=found.exponents,
    )


def _unchanged(found: TensorStatistics, name: str) -> TensorStatistics:
    """Of a tensor as it is, from the statistics of a cast that is not in use."""
    return replace(
        found,
        cast=name,
        flushed=0.0,
        subnormal=0.0,
        saturated=0.0,
        unrepresented=0,
        sqnr_db=math.inf,
        relative_error=0.0,
        bias=0.0,
    )


def _own_subnormal(found: TensorStatistics, dtype: str) -> float:
    """Share of the non-zero elements that are subnormal numbers of the dtype that they are in."""
    below = sum(n for exponent, n in found.exponents.items() if int(exponent) < _SMALLEST_NORMAL[dtype])
    return below / max(sum(found.exponents.values()), 1)


def _as_matrix(x: Tensor) -> Tensor:
    """Blocks of a cast lie along the last axis; a weight of a convolution is one row an output."""
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1] if x.dim() else 1)


def _no_random() -> Tensor:
    """Random bits of what-ifs: the same for every tensor and step."""
    return torch.zeros(2, dtype=torch.int64)
