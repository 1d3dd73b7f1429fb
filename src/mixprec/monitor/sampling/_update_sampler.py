"""What one applied step does to each parameter: how far it moves it, and how much of that rounding lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import Parameter

from ...records import UpdateRecord
from .._step_watch import StepFacts
from ._gatherer import SHORT_NAMES

#: Elements that are compared at a time: three tensors of them in fp32 stay in the second-level cache of a core; and
#: on an accelerator, whose kernels want more. Counts in fp32 are exact below 2^24.
_PIECE, _DEVICE_PIECE = 2**16, 2**22
#: Gives the full value of a parameter, fresh.
FullValue = Callable[[Parameter], Tensor]


@dataclass(frozen=True)
class _Before:
    """A parameter before its update: its full value, and which elements have a gradient."""

    value: Tensor
    has_gradient: Tensor


@dataclass(frozen=True)
class Compared:
    """A parameter after its update, as numbers on its device.

    ``numbers``: [weight norm, update norm, lost elements, elements with a gradient].
    """

    site: str
    dtype: str
    gradient_norm: float
    numbers: Tensor


class UpdateSampler:
    """Compares the full value of parameters before and after a step.

    The full value is what the next update starts from: the master, or the weight with what is kept beside it. What an
    optimizer asked of a bare 16-bit weight cannot be known from outside: there, as everywhere, an update counts as
    lost where an element has a gradient that is not zero and does not move.

    Args:
        value: gives the full value of a parameter.
        idle: gives the identities (``id``) of parameters whose learning rate is zero: they are left out.
        wants: whether a parameter of that name is sampled.

    Attributes:
        own_seconds: time that it has taken [s].
    """

    def __init__(self, value: FullValue, idle: Callable[[], Collection[int]], wants: Callable[[str], bool]) -> None:
        self._value, self._idle, self._wants = value, idle, wants
        self._before: dict[str, _Before] = {}
        self.own_seconds = 0.0

    @torch.no_grad()
    def before(self, facts: StepFacts) -> None:
        """The weights are about to change."""
        started = time.perf_counter()
        idle = self._idle()
        self._before |= {  # of several optimizers each tells of its own
            name: _Before(_local(self._value(param)), _local(facts.gradients[name]).to(torch.bool))
            for name, param in facts.parameters.items()
            if name in facts.gradients
            and self._wants(name)
            and id(param) not in idle
            and param.dtype in SHORT_NAMES
            and not facts.gradients[name].is_sparse
        }
        self.own_seconds += time.perf_counter() - started

    @torch.no_grad()
    def after(self, facts: StepFacts) -> list[Compared]:
        """The weights have changed."""
        started = time.perf_counter()
        before, self._before = self._before, {}
        found: list[Compared] = []
        for name, one in before.items():
            param = facts.parameters[name]
            # A weight of 32 bits is its own full value: it is read where it lies.
            after = param.detach() if param.dtype.itemsize >= 4 else self._value(param)
            numbers = _compared(one, _local(after))
            found.append(Compared(name, SHORT_NAMES[param.dtype], facts.norms.get(name, 0.0), numbers))
        self.own_seconds += time.perf_counter() - started
        return found

    def forget(self) -> None:
        """No update comes of it."""
        self._before = {}


def read_updates(found: Sequence[Compared], *, recipe: str, seed: int, step: int) -> tuple[UpdateRecord, ...]:
    """Records of what was compared: one transfer for each device."""
    return tuple(
        UpdateRecord(
            recipe=recipe,
            seed=seed,
            step=step,
            site=one.site,
            dtype=one.dtype,
            weight_norm=weight,
            gradient_norm=one.gradient_norm,
            update_norm=update,
            ratio=update / weight if weight else 0.0,
            lost=lost / moving if moving else 0.0,
        )
        for one, (weight, update, lost, moving) in zip(found, _on_the_host([c.numbers for c in found]), strict=True)
    )


def _compared(before: _Before, after: Tensor) -> Tensor:
    """Numbers of `Compared`, piece by piece: what is in between stays in the cache.

    Comparisons that write floats and sums of ones take a fifth of those that write booleans and count them (torch on a
    CPU: 0.17 against 1.5 ns an element); the sums are exact, since a piece has fewer elements than 2^24.
    """
    length = _PIECE if after.is_cpu else _DEVICE_PIECE
    places = [t.reshape(-1).split(length) for t in (before.value, after, before.has_gradient)]
    scratch = [torch.empty_like(places[0][0]) for _ in range(2)]
    pieces = [
        _piece(value, moved, mask, [s[: len(value)] for s in scratch])
        for value, moved, mask in zip(*places, strict=True)
    ]
    weight, update, lost, moving = torch.stack(pieces).double().unbind(1)
    norms = [torch.linalg.vector_norm(norm) for norm in (weight, update)]
    return torch.stack([*norms, lost.sum(), moving.sum()])


def _piece(before: Tensor, after: Tensor, has_gradient: Tensor, scratch: Sequence[Tensor]) -> Tensor:
    difference, moving = scratch
    weight = torch.linalg.vector_norm(before)
    update = torch.linalg.vector_norm(torch.sub(before, after, out=difference))
    still = torch.eq(before, after, out=difference)
    moving.copy_(has_gradient.view(torch.uint8))
    return torch.stack([weight, update, torch.dot(still, moving), moving.sum()])


def _on_the_host(rows: list[Tensor]) -> list[list[float]]:
    values: dict[int, list[float]] = {}
    for device in dict.fromkeys(row.device for row in rows):
        here = [i for i, row in enumerate(rows) if row.device == device]
        values.update(zip(here, torch.stack([rows[i] for i in here]).tolist(), strict=True))
    return [values[i] for i in range(len(rows))]


def _local(t: Tensor) -> Tensor:
    """This rank's part of a sharded tensor."""
    return t.to_local() if hasattr(t, "to_local") else t  # pyright: ignore[reportAttributeAccessIssue]
