"""All faults of a drill, by their words."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ._data import PoisonedBatches
from ._fault import Fault
from ._machine import BitFlip, InfiniteMoment, LearningRate, OutlierChannel
from ._precision import FourBits, FrozenScale

#: In the order in which they are tried.
FAULTS: Mapping[str, type[Fault]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            LearningRate,
            PoisonedBatches,
            BitFlip,
            InfiniteMoment,
            FourBits,
            FrozenScale,
            OutlierChannel,
        )
    }
)
