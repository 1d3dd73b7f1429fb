"""Decorators of functions, and registrations, which are refused."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mixprec.compat import apex_amp as amp
from mixprec.compat.torch_amp import autocast


def seen(*values: Tensor, more: list[Tensor] | None = None) -> list[torch.dtype]:
    return [v.dtype for v in (*values, *(more or []), values[0] @ values[0])]


HALF, FULL = torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2)


def test_inside_a_region() -> None:
    with autocast("cpu", torch.float16):
        assert amp.float_function(seen)(HALF, more=[FULL]) == [torch.float32] * 3
        assert amp.half_function(seen)(FULL, more=[HALF]) == [torch.float16] * 3
        assert amp.promote_function(seen)(HALF, more=[FULL]) == [torch.float32] * 2 + [torch.float16]
        assert amp.promote_function(seen)(HALF, HALF) == [torch.float16] * 3
        with amp.disable_casts():
            assert seen(FULL) == [torch.float32] * 2


def test_outside_nothing_is_cast() -> None:
    for decorate in (amp.float_function, amp.half_function, amp.promote_function):
        assert decorate(seen)(FULL, HALF) == [torch.float32, torch.float16, torch.float32]
        assert decorate(seen).__name__ == "seen"


@pytest.mark.parametrize("kind", ["float", "half", "promote"])
def test_registrations_are_refused_with_the_way(kind: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"amp\.{kind}_function\(einsum\)"):
        getattr(amp, f"register_{kind}_function")(torch, "einsum")
