"""How a model is spread over devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Sharding = Literal["none", "optimizer", "gradients", "weights"]


@dataclass(frozen=True, kw_only=True)
class Parallelism:
    """Devices by what they share.

    Attributes:
        data: ranks that see other samples.
        tensor: ranks that share each matrix; the activations between products too (sequence parallelism).
        pipeline: stages of layers, in the 1F1B schedule.
        expert: ranks that share the experts, among the data ranks.
        sharding: what the data ranks share of the model: nothing (DDP), the optimizer's state (ZeRO 1), the gradients
            too (ZeRO 2), the weights too (ZeRO 3, FSDP).
        checkpointing: whether each layer is recomputed in the backward pass.
        micro_batches: of a step, for each data rank.
        devices_per_node: that a link joins; others are joined by the network.

    Raises:
        ValueError: a number below 1, expert ranks that do not divide the data ranks, or an unknown sharding.

    Example:
        >>> Parallelism(data=8, tensor=8, pipeline=4, sharding="weights").devices
        256
    """

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    sharding: Sharding = "none"
    checkpointing: bool = False
    micro_batches: int = 1
    devices_per_node: int = 8

    def __post_init__(self) -> None:
        for name in ("data", "tensor", "pipeline", "expert", "micro_batches", "devices_per_node"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise ValueError(f"parallelism: {name} is {getattr(self, name)!r}, expected a whole number from 1 on")
        if self.data % self.expert:
            raise ValueError(
                f"parallelism: {self.expert} expert ranks among {self.data} data ranks: expected a divisor of those"
            )
        if self.sharding not in get_args(Sharding):
            raise ValueError(
                f"parallelism: sharding is {self.sharding!r}, expected one of {', '.join(get_args(Sharding))}"
            )

    @property
    def devices(self) -> int:
        """All of them."""
        return self.data * self.tensor * self.pipeline

    def shards(self, what: Sharding) -> bool:
        """Whether the data ranks share the weights, the gradients or the optimizer's state."""
        order = get_args(Sharding)
        return order.index(self.sharding) >= order.index(what)
