"""What a step needs of one parameter, found once and used while nobody replaces a tensor or an option."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import Parameter

from ..kernels import StoredMoment, StoredWeight
from ..specs import Moments
from ._layout import Layout, MomentName, step_count
from ._stored import EXTRAS


@dataclass(frozen=True, eq=False)
class Held:
    """One parameter's weight and moments as they lie in memory.

    Attributes:
        weight: whose tensor is the parameter itself.
        moments: of the rule.
        names: of the moments.
        step: the step counter.
        said: the group's ``weights`` and ``moments``.
    """

    weight: StoredWeight
    moments: tuple[StoredMoment, ...]
    names: tuple[MomentName, ...]
    step: Tensor
    said: tuple[str | None, Moments | None]

    @classmethod
    def of(
        cls,
        param: Parameter,
        state: MutableMapping[str, Any],
        layout: Layout,
        names: tuple[MomentName, ...],
        group: Mapping[str, Any],
    ) -> Held:
        """Find the tensors in the state; what is missing is made."""
        moments = tuple(layout.moment(name, param, state) for name in names)
        said = (group["weights"], group["moments"])
        return cls(layout.weight(param, state), moments, names, step_count(state), said)

    def is_current(self, state: Mapping[str, Any], names: tuple[MomentName, ...], group: Mapping[str, Any]) -> bool:
        """Whether the state still holds these tensors, and the group says what it said."""
        kind, extra = self.weight.kind, self.weight.extra
        return (
            self.names is names
            and self.said[0] is group["weights"]
            and self.said[1] is group["moments"]
            and self.step is state.get("step")
            and (extra is None or extra is state.get(EXTRAS[kind][0]))
            and all(m.values is name.values(state) for m, name in zip(self.moments, names, strict=True))
        )
