"""An exponential moving average of full weights, kept in fp32 however the weights are kept."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

_KEYS = ("decay", "updates", "averages")


class WeightAverage:
    """``average = average + (1 - decay) * (weight - average)``, of fp32 values (fp64 of fp64 parameters).

    A 16-bit average stalls: at a decay of 0.999 it moves by a thousandth of its distance to the weight, which 8 bits
    lose. Here the average is fp32, and the weight that enters it is the full one, not its 16-bit rounding; each
    operation and the constant round once, and an average that equals its weight stays. It begins as the weights and
    advances only in ``update()``, so that a skipped step does not count. Buffers (running statistics) are not averaged.

    Args:
        parameters: of the model, by name; those that need no gradient too.
        decay: 0 or more, below 1.
        full_weight: gives a parameter's full value, fresh: ``KeptWeights.full_weight``. Left out: the parameter itself.

    Raises:
        ValueError: a decay out of its range.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control
    Optim. 30 (1992).

    Example:
        >>> p = Parameter(torch.zeros(2, dtype=torch.bfloat16))
        >>> average = WeightAverage({"p": p}, 0.75)
        >>> with torch.no_grad():
        ...     _ = p.fill_(1.0)
        >>> average.update()
        >>> average.state_dict()["averages"]["p"].tolist()
        [0.25, 0.25]
        >>> with average.swapped_in():
        ...     p.tolist()
        [0.25, 0.25]
        >>> p.tolist()
        [1.0, 1.0]
    """

    def __init__(
        self,
        parameters: Mapping[str, Parameter],
        decay: float,
        *,
        full_weight: Callable[[Parameter], Tensor] | None = None,
    ) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"the decay of a weight average is {decay}, expected 0 or more and below 1, e.g. 0.999")
        self._parameters, self._decay = dict(parameters), float(decay)
        self._full_weight = full_weight or _widened
        self._averages = {name: self._full_weight(param) for name, param in self._parameters.items()}
        self._updates = 0
        self._is_swapped_in = False

    @property
    def decay(self) -> float:
        """Share of the average that an update keeps."""
        return self._decay

    @property
    def updates(self) -> int:
        """Updates so far."""
        return self._updates

    @property
    def is_swapped_in(self) -> bool:
        """Whether the averages are in the model now, in place of the weights."""
        return self._is_swapped_in

    @torch.no_grad()
    def update(self) -> None:
        """Advance by the present weights; call it after an applied step.

        Raises:
            RuntimeError: the averages are in the model now.
        """
        if self._is_swapped_in:
            raise RuntimeError("update: the averages are in the model now, call it after swapped_in() has ended")
        for name, param in self._parameters.items():
            average = self._averages[name]
            average.add_(self._full_weight(param).sub_(average).mul_(1 - self._decay))
        self._updates += 1

    @contextmanager
    def swapped_in(self) -> Generator[None]:
        """Let the model's weights be the averages, rounded to nearest in 16 bits; afterwards they are what they were.

        Evaluate inside, do not train: what is kept beside a weight (a master, a remainder) is not touched.

        Raises:
            RuntimeError: the averages are in the model already.
        """
        if self._is_swapped_in:
            raise RuntimeError("swapped_in: the averages are in the model already")
        own = {name: param.detach().clone() for name, param in self._parameters.items()}
        self._is_swapped_in = True
        try:
            self._write(self._averages)
            yield
        finally:
            self._write(own)
            self._is_swapped_in = False

    def state_dict(self) -> dict[str, Any]:
        """Decay, updates and averages by name; tensors are references, as torch's own are."""
        return {"decay": self._decay, "updates": self._updates, "averages": dict(self._averages)}

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from a ``state_dict()``, its decay included.

        Raises:
            ValueError: not such a state, or that of other parameters.
        """
        if set(state_dict) != set(_KEYS):
            raise ValueError(
                f"load_state_dict of a weight average: got keys {sorted(state_dict)}, expected {sorted(_KEYS)}"
            )
        saved: Mapping[str, Tensor] = state_dict["averages"]
        theirs = {name: tuple(value.shape) for name, value in saved.items()}
        ours = {name: tuple(value.shape) for name, value in self._averages.items()}
        if theirs != ours:
            differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
            raise ValueError(
                f"load_state_dict of a weight average: {len(differing)} parameters differ, {', '.join(differing[:5])}: "
                "expected the averages of the same model"
            )
        for name, average in self._averages.items():
            average.copy_(saved[name])
        self._decay, self._updates = float(state_dict["decay"]), int(state_dict["updates"])

    @torch.no_grad()
    def _write(self, values: Mapping[str, Tensor]) -> None:
        for name, param in self._parameters.items():
            param.copy_(values[name])


def _widened(param: Parameter) -> Tensor:
    value = param.detach()
    return value.clone() if value.dtype in (torch.float32, torch.float64) or value.is_complex() else value.float()
