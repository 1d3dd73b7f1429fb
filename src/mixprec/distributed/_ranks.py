"""The ranks that take a step together: each brings its opinion, all get the same one back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol, TypeVar, cast

import torch
import torch.distributed as dist

from ._opinion import Opinion

Told = TypeVar("Told")

#: Backends that move tensors of an accelerator only.
_ACCELERATED = ("nccl", "xccl", "hccl")

#: Norms of equal gradients are equal; this much is left to ranks on different hardware.
_NORM_TOLERANCE = 1e-6


class Ranks(Protocol):
    """Who has to agree on a step."""

    def agree(self, opinion: Opinion, *, compares_norms: bool) -> Opinion:
        """Give the opinion of all ranks; called by each of them once per step.

        Args:
            opinion: of this rank.
            compares_norms: whether the norm is used, so that it must be the same on all ranks.

        Raises:
            ValueError: on every rank, where one refuses the step, where they step other optimizers or know other
                losses, or where norms that are compared differ.
        """
        ...

    def share(self, told: Sequence[Told]) -> list[Told]:
        """Give what all ranks have to tell, in their order; called by each of them as often.

        Args:
            told: by this rank: plain values; mostly nothing, which costs one small message.
        """
        ...


class Alone:
    """One process: its own opinion holds.

    Example:
        >>> Alone().agree(Opinion(is_finite=True, norm=5.0, has_gradients=(True,)), compares_norms=True).norm
        5.0
    """

    def agree(self, opinion: Opinion, *, compares_norms: bool) -> Opinion:
        """Give the opinion back; see ``Ranks.agree``."""
        if opinion.refusal:
            raise ValueError(opinion.refusal)
        return opinion

    def share(self, told: Sequence[Told]) -> list[Told]:
        """Give it back; see ``Ranks.share``."""
        return list(told)


class Group:
    """The ranks of a process group, which agree by one small all-reduce per step.

    A second one tells which losses are at fault, where there are several.

    Args:
        group: ``None``: the default group.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self._device = _device_of(dist.get_backend(group))

    def agree(self, opinion: Opinion, *, compares_norms: bool) -> Opinion:
        """See ``Ranks.agree``."""
        norm = opinion.norm if opinion.is_finite else 0.0
        names = _fingerprint(opinion)
        told = [not opinion.is_finite, bool(opinion.refusal), norm, -norm, names, -names, *opinion.has_gradients]
        bad, refused, most, least, last, first, *has_gradients = self._maxima(told)
        if refused:
            raise ValueError(opinion.refusal or "step: another rank refused this step; its error says why")
        if last != -first:
            raise ValueError(
                f"step: the ranks take different steps; this one steps {', '.join(opinion.optimizers)}, knows the "
                f"losses {', '.join(opinion.losses)} and has {opinion.plan or 'no plan'}: let every rank call step and "
                "backward with the same names, and prepare with the same recipe and options"
            )
        if compares_norms and not bad and most + least > _NORM_TOLERANCE * most:
            raise ValueError(
                f"step: clip_norm is set, and the ranks' gradients have norms from {-least:g} to {most:g}: each rank "
                "would clip its own gradients by another factor; use DDP or fully_shard, whose gradients have one "
                "norm, or prepare with clip_norm=None (or process_group=None where each rank trains a model of its own)"
            )
        agreed = replace(opinion, is_finite=not bad, has_gradients=tuple(map(bool, has_gradients)))
        return self._with_losses(agreed) if len(opinion.losses) > 1 else agreed

    def share(self, told: Sequence[Told]) -> list[Told]:
        """See ``Ranks.share``."""
        if not self._maxima([float(len(told))])[0]:
            return []
        gathered: list[list[Told]] = [[] for _ in range(dist.get_world_size(self._group))]
        dist.all_gather_object(gathered, list(told), group=self._group)
        return [one for rank in gathered for one in rank]

    def _with_losses(self, opinion: Opinion) -> Opinion:
        flags = [[name in names for name in opinion.losses] for names in (opinion.in_flight, opinion.at_fault)]
        found = self._maxima([*flags[0], *flags[1]])
        in_flight, at_fault = found[: len(flags[0])], found[len(flags[0]) :]
        return replace(
            opinion, in_flight=_marked(opinion.losses, in_flight), at_fault=_marked(opinion.losses, at_fault)
        )

    def _maxima(self, values: Sequence[float]) -> list[float]:
        told = torch.tensor([float(value) for value in values], dtype=torch.float64, device=self._device)
        dist.all_reduce(told, dist.ReduceOp.MAX, group=self._group)
        return told.tolist()


def ranks_of(process_group: dist.ProcessGroup | Literal["default"] | None) -> Ranks:
    """Say who has to agree.

    Args:
        process_group: a group that this process belongs to; ``"default"``: all ranks, where ``torch.distributed`` is
            initialised; ``None``: this process alone.

    Raises:
        ValueError: a group that this process does not belong to, or another text.
        TypeError: something else.

    Example:
        >>> type(ranks_of(None)).__name__
        'Alone'
    """
    if process_group is None:
        return Alone()
    if isinstance(process_group, str):
        if process_group != "default":
            raise ValueError(f"process_group is '{process_group}', expected 'default', None or a ProcessGroup")
        return Group() if _is_initialised() and dist.get_world_size() > 1 else Alone()
    if not dist.is_available() or not isinstance(cast("object", process_group), dist.ProcessGroup):
        raise TypeError(
            f"process_group is {process_group!r} ({type(process_group).__name__}), expected 'default', None or a "
            "ProcessGroup"
        )
    if dist.get_rank(process_group) < 0:
        raise ValueError("process_group: this process does not belong to it; give a group of its own, or None")
    return Group(process_group) if dist.get_world_size(process_group) > 1 else Alone()


def _is_initialised() -> bool:
    return dist.is_available() and dist.is_initialized()


def _device_of(backend: str) -> torch.device:
    """Where a backend moves a tensor of a few numbers."""
    if backend not in _ACCELERATED:
        return torch.device("cpu")
    accelerator = torch.accelerator.current_accelerator()
    return torch.device("cuda" if accelerator is None else accelerator.type, torch.accelerator.current_device_index())


def _fingerprint(opinion: Opinion) -> float:
    """A number below 2^48 for the names that every rank must have alike."""
    text = "\n".join([opinion.plan, "", *opinion.optimizers, "", *opinion.losses])
    return float(int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big"))


def _marked(names: Sequence[str], flags: Sequence[float]) -> frozenset[str]:
    return frozenset(name for name, flag in zip(names, flags, strict=True) if flag)
