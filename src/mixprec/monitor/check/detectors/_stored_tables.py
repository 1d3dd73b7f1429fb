"""Tables and positions that were made in 16 bits before the step, and are only read in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ..._finding import Finding
from .._call import Call, short
from .._setting import Setting
from .._values import NARROW, Facts
from ._accumulators import STOPS
from ._detector import Detector

#: Share of a column's neighbours that are equal: in a sound table of cosines below the first, where 16 bits have merged
#: every second position above the second (half of them are).
SOUND, MERGED = 0.05, 0.25
#: Changes of sign for each row from which on a column is fast: a third of a radian. A slow one stands still of itself.
FAST = 0.1
_COLUMNS = 64


class StoredTableDetector(Detector):
    """What a buffer, a plain attribute or the batch brings along.

    - whole numbers in equal steps (positions, distances) in 16 bits, of which some are no longer themselves: a warning;
    - a table of cosines or sines (of any dtype) whose rows are sound up to the position where 16 bits stop to tell
      neighbours apart (256 in bf16, 2,048 in fp16), and equal to their neighbours from there on: a fault, for its
      positions were counted in 16 bits.
    """

    operations = None

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._seen: set[tuple[int, torch.Size]] = set()

    def see(self, call: Call) -> Iterable[Finding]:
        """The operands that no operation of this step has made."""
        if call.place.backward:
            return
        for x, facts in call.inputs:
            if facts.maker or x.requires_grad or x.dim() == 0 or not facts.is_finite:
                continue
            key = x.untyped_storage().data_ptr(), x.shape
            if key not in self._seen:
                self._seen.add(key)
                with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
                    yield from self._look(call, x.detach(), facts)

    def _look(self, call: Call, x: Tensor, facts: Facts) -> Iterator[Finding]:
        if x.dtype in NARROW and facts.amax > STOPS[x.dtype]:
            yield from self._positions(call, x, facts)
        if 0.5 < facts.amax <= 1.01 and facts.low < -0.5:
            yield from self._table(call, x)

    def _positions(self, call: Call, x: Tensor, facts: Facts) -> Iterator[Finding]:
        lost = max(_lost(x.movedim(dim, -1).reshape(-1, x.shape[dim])[0]) for dim in range(x.dim()))
        if lost:
            dtype = short(x.dtype)
            yield call.finding(
                "warning",
                "positions in 16 bits",
                f"{self._name(call, x)} holds whole numbers up to {facts.amax:g} in {dtype}: {lost} of a row are no "
                "longer themselves",
                evidence={"largest": facts.amax, "lost": lost, "dtype": dtype},
                threshold=f"{dtype} holds whole numbers up to {STOPS[x.dtype]}",
                remedy="keep positions and counts in integers or fp32: torch.arange(n, dtype=torch.float32)",
            )

    def _table(self, call: Call, x: Tensor) -> Iterator[Finding]:
        for dim in range(x.dim()):
            rows = x.movedim(dim, 0).reshape(x.shape[dim], -1)[:, :_COLUMNS]
            dtype = _merged_in(rows)
            if dtype is not None:
                yield call.finding(
                    "fault",
                    "angles in 16 bits",
                    f"{self._name(call, x)} ({' x '.join(map(str, x.shape))}) is a table of cosines or sines whose "
                    f"positions were counted in {short(dtype)}: from row {STOPS[dtype]} on neighbours are equal",
                    evidence={"rows": rows.shape[0], "dtype": short(dtype)},
                    threshold=f"{short(dtype)} holds whole numbers up to {STOPS[dtype]}",
                    remedy="compute the table in fp32, positions and inv_freq too, and cast its cosines",
                )
                return

    def _name(self, call: Call, x: Tensor) -> str:
        """The buffer's name, or what it is."""
        at = x.untyped_storage().data_ptr()
        named = (n for n, b in call.setting.model.named_buffers() if b.untyped_storage().data_ptr() == at)
        return next((f"the buffer {name}" for name in named), f"an operand of {call.place.operation}")


def _lost(row: Tensor) -> int:
    """Of a run of whole numbers in equal steps: how many are not themselves. 0 where it is no such run."""
    start, step = (float(v) for v in row[:2]) if row.numel() > 2 else (0.0, 0.0)
    if step == start or step != round(step) or start != round(start):
        return 0
    exact = start + (step - start) * torch.arange(row.numel(), dtype=torch.float64, device=row.device)
    return int((row.double() != exact).sum()) if bool((row == exact.to(row.dtype)).all()) else 0


def _merged_in(rows: Tensor) -> torch.dtype | None:
    """The 16-bit dtype in which the rows' positions were counted; ``None``: none shows."""
    for dtype, stops in STOPS.items():
        if rows.shape[0] < stops + stops // 4:
            continue
        equal = (rows[1:] == rows[:-1]).double()
        turns = (rows[1:stops].sign() != rows[: stops - 1].sign()).double().mean(0)
        before, after = equal[:stops].mean(0), equal[stops : 2 * stops].mean(0)
        if bool(((turns > FAST) & (before < SOUND) & (after >= MERGED)).any()):
            return dtype
    return None
