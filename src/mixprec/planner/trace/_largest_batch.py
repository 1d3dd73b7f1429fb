"""The largest batch whose training step fits into a device's memory, and the largest model of its kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ...specs import Recipe
from ._memory_forecast import MemoryForecast
from ._predict_memory import predict_memory
from ._resize import resized
from ._sandbox import Loss, samples_of
from ._take_inventory import MakeOptimizer

#: Nobody asks for more, and a model whose memory does not grow has no largest batch.
_MOST = 2**24


@dataclass(frozen=True, kw_only=True)
class LargestBatch:
    """What fits.

    Attributes:
        recipe: its name.
        samples: of the largest batch; 0: not even one sample fits.
        peak: bytes of a step of that batch, the batch included; of one sample where none fits.
        limit: bytes that may be used.
        bytes_per_sample: by which the peak grows.
        binds: the kind of memory that takes most of it then.
        parameters: of the largest model of the kind that a batch of one sample could train: an upper bound, for its
            activations are taken to be this model's.
    """

    recipe: str
    samples: int
    peak: int
    limit: int
    bytes_per_sample: float
    binds: str
    parameters: int


def largest_batch(
    model: nn.Module, loss: Loss, batch: Any, recipe: Recipe | str, limit: float, *, optimizer: MakeOptimizer,
    is_cpu: bool = False,
) -> LargestBatch:  # fmt: skip
    """Find the largest batch whose step fits into ``limit`` bytes.

    The peak is traced at the batch's own size and at twice that, which gives a line; then at the size that the line
    promises, and between what fits and what does not, until no sample more fits, for peaks grow by steps too. A trace
    takes no memory, whatever the size.

    Args:
        model: any that converts.
        loss: ``loss(model, batch)``.
        batch: whose samples are repeated; all tensors have them along their first dimension.
        recipe: a recipe, its name, or the path of its TOML file.
        limit: bytes; a device's memory less what its driver and its allocator's gaps take.
        optimizer: ``optimizer(parameters)``, makes a new one.
        is_cpu: whether the step is to run on a CPU.

    Raises:
        ValueError: a batch without a common first dimension, or a model whose memory does not grow with it.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> model, x = nn.Linear(256, 4), torch.ones(16, 256)
        >>> mean = lambda model, x: torch.tanh(model(x)).mean()
        >>> found = largest_batch(model, mean, x, "fp32", 2**20, optimizer=partial(torch.optim.SGD, lr=0.1))
        >>> found.samples, found.binds
        (974, 'saved activations')
    """
    search = _Search(
        lambda samples: predict_memory(
            model, loss, resized(batch, samples), recipe, optimizer=optimizer, is_cpu=is_cpu
        ),
        batch_bytes=_bytes_of(resized(batch, 1)),
    )
    samples = samples_of(batch) or 1
    slope = (search.peak(2 * samples) - search.peak(samples)) / samples
    if slope <= 0:
        raise ValueError(
            f"the peak of a step is {search.peak(samples):,} bytes for {samples} samples and no more for twice as "
            "many: the batch's first dimension is not that of the samples; return batches whose first dimension is"
        )
    if search.peak(1) > limit:
        return search.result(0, limit, slope)
    return search.result(search.solve(limit, samples, slope), limit, slope)


class _Search:
    """Peaks by batch size, each traced once."""

    def __init__(self, trace: Callable[[int], MemoryForecast], batch_bytes: int) -> None:
        self._trace, self._batch_bytes = trace, batch_bytes
        self._known: dict[int, MemoryForecast] = {}

    def peak(self, samples: int) -> int:
        """Bytes of a step, its batch included."""
        return self._forecast(samples).peak + samples * self._batch_bytes

    def _forecast(self, samples: int) -> MemoryForecast:
        if samples not in self._known:
            self._known[samples] = self._trace(samples)
        return self._known[samples]

    def solve(self, limit: float, samples: int, slope: float) -> int:
        """The most samples that fit, where one does: by straight lines, and by halves where those do not close in."""
        fits, too_many = 1, 0
        guess = samples + math.floor((limit - self.peak(samples)) / slope)
        while not too_many:
            guess = max(guess, fits + 1)
            if guess > _MOST:
                return _MOST
            if self.peak(guess) > limit:
                too_many = guess
            else:
                fits, guess = guess, 2 * guess
        halves = False
        while too_many - fits > 1:
            low, high = self.peak(fits), self.peak(too_many)
            share = 0.5 if halves else (limit - low) / (high - low)
            halves = not halves
            guess = min(max(fits + math.floor(share * (too_many - fits)), fits + 1), too_many - 1)
            # A line that is exact leaves one sample between the two.
            for size in (guess, guess + 1):
                if fits < size < too_many:
                    fits, too_many = (size, too_many) if self.peak(size) <= limit else (fits, size)
        return fits

    def result(self, samples: int, limit: float, slope: float) -> LargestBatch:
        """What was found."""
        forecast, one = self._forecast(max(samples, 1)), self._forecast(1)
        kinds = forecast.by_kind
        per_parameter = (one.kept + one.gradients) / max(one.parameters, 1)
        beside = self.peak(1) - one.kept - one.gradients
        return LargestBatch(
            recipe=forecast.recipe,
            samples=samples,
            peak=self.peak(max(samples, 1)),
            limit=math.floor(limit),
            bytes_per_sample=slope,
            binds=max(kinds, key=lambda kind: kinds[kind]),
            parameters=max(math.floor((limit - max(beside, 0)) / per_parameter), 0) if per_parameter else 0,
        )


def _bytes_of(batch: Any) -> int:
    return sum(leaf.nbytes for leaf in tree_leaves(batch) if isinstance(leaf, Tensor))
