"""What the functions on tensors take: tensors, random bits, amaxes; the rest is refused in words."""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor

from mixprec.specs import Cast


def check_tensor(what: str, x: object, name: str = "x") -> None:
    """Refuse what is no dense tensor, by the name of the function that got it.

    Raises:
        TypeError: it is no tensor.
        ValueError: it is sparse.
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{what}: {name} is a {type(x).__name__}, expected a torch.Tensor: torch.tensor({name}) makes one"
        )
    if x.layout != torch.strided:
        raise ValueError(f"{what}: {name} is {x.layout}, expected a dense tensor: {name}.to_dense() makes one")


def random_state(cast: Cast, seed: int | None, offset: int) -> Tensor | None:
    """``[seed, offset]`` for a cast that draws random bits, else None.

    Raises:
        TypeError: a seed or offset that is no integer.
        ValueError: one beyond 64 bits; or it draws, and there is no seed.
    """
    if seed is not None:
        _check_integer("seed", seed)
    _check_integer("offset", offset)
    if cast.rounding != "stochastic" and cast.signs != "fresh":  # is_random; the compiler reads fields alone
        return None
    if seed is None:
        raise ValueError(f"the cast {str(cast)!r} draws random bits and needs a seed; pass seed=0, say")
    return torch.tensor([seed, offset], dtype=torch.int64)


def _check_integer(name: str, given: object) -> None:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name} is {given!r} ({type(given).__name__}), expected an integer of 64 bits")
    if not -(2**63) <= given < 2**63:
        raise ValueError(f"{name} is {given}, expected an integer of 64 bits, -2**63 to 2**63 - 1")


def given_amax(cast: Cast, amax: Tensor | float | None, device: torch.device) -> Tensor | None:
    """The amax of a delayed scale as 0-d fp32; None for a cast that takes its scale from the tensor.

    Raises:
        TypeError: an amax that is not one number.
        ValueError: the scale is delayed and there is no amax, or the other way round; an amax that is negative, NaN
            or infinite.
    """
    if (cast.delayed is None) != (amax is None):
        raise ValueError(
            f"the cast '{cast}' takes its scale from earlier passes, of which one tensor knows nothing: pass amax=, or "
            "leave out 'delayed'"
            if amax is None
            else f"the cast '{cast}' takes its scale from the tensor itself: leave out amax, or add 'delayed'"
        )
    return None if amax is None else _checked_amax(amax).to(device)


def _checked_amax(amax: Tensor | float) -> Tensor:
    """One number as 0-d fp32. Its value is not looked at while a compiler traces, which has none."""
    if not _is_one_number(amax):
        got = f"of shape {list(amax.shape)}, {amax.dtype}" if isinstance(amax, Tensor) else f"{amax!r}"
        raise TypeError(f"amax is {got} ({type(amax).__name__}), expected one number or a tensor of one")
    one = torch.as_tensor(amax).to(torch.float32).reshape(())
    if not torch.compiler.is_compiling() and not 0.0 <= one.item() < math.inf:
        raise ValueError(
            f"amax is {float(amax):g}, expected a finite number of fp32, 0 or more (0: the tensor's own), as "
            "x.abs().amax() gives"
        )
    return one


def _is_one_number(given: object) -> bool:
    if isinstance(given, Tensor):
        return given.numel() == 1 and not given.is_complex() and given.dtype != torch.bool
    return isinstance(given, Real) and given is not True and given is not False
