"""What a saved state holds of one parameter, and how it was kept; of this package's optimizers or of torch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ..kernels import WeightKind
from ..specs import MomentKind, Moments, Weights
from ._layout import Layout, MomentName, moments_of, normal_moments
from ._stored import EXTRAS, weight_kind

_SAID: Mapping[WeightKind, str] = {
    "plain": "they are",
    "master": "fp32 masters",
    "split": "split",
    "stochastic": "stochastically rounded",
    "kahan": "compensated (kahan)",
}


@dataclass(frozen=True)
class SavedEntry:
    """One parameter's state, copied to the parameter's device.

    Attributes:
        key: of the parameter in the state.
        names: of the moments.
        tensors: the state.
        kind: how the weight was kept; ``plain`` where nothing lay beside it.
        moments: how the moments were kept; ``None``: it has none.
        is_ours: whether an optimizer of this package saved it.
    """

    key: Any
    names: tuple[MomentName, ...]
    tensors: dict[str, Any]
    kind: WeightKind
    moments: Moments | None
    is_ours: bool

    @classmethod
    def read(
        cls, key: Any, param: Tensor, state: Mapping[str, Any], group: Mapping[str, Any], names: tuple[MomentName, ...]
    ) -> SavedEntry:
        """Copy and check the state of a parameter.

        Raises:
            ValueError: a tensor of another shape than the parameter's.
        """
        tensors = {name: _copied(name, value, param) for name, value in state.items() if value is not None}
        for name, value in moments_of(tensors, names):
            if value.dtype in (torch.float16, torch.float64):
                tensors[name] = value.float()
        entry = cls(
            key=key,
            names=names,
            tensors=tensors,
            kind=_kind(param, tensors, group),
            moments=_moments(tensors, group, names),
            is_ours="weights" in group,
        )
        entry._check_shapes(param)
        return entry

    def layout(self, new: Layout) -> Layout:
        """How it was kept; ``new``, where that does not tell them apart."""
        begins = not self.is_ours and self.kind == "plain"  # torch's state: what lies beside the weight begins now
        return Layout(new.kind if begins else self.kind, self.moments or new.moments)

    def differences(self, new: Layout) -> list[str]:
        """What would have to be converted; moments of torch's that become fp32 lose nothing."""
        old, found = self.layout(new), list[str]()
        if old.kind != new.kind:
            found.append(f"weights as {_SAID[old.kind]}, here as {_SAID[new.kind]}")
        if old.moments != new.moments and (self.is_ours or new.moments.kind != "fp32"):
            found.append(f"moments as {_described(old.moments)}, here as {_described(new.moments)}")
        return found

    def _check_shapes(self, param: Tensor) -> None:
        expected: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
        if self.kind in EXTRAS:
            name, dtype = EXTRAS[self.kind]
            expected[name] = (dtype, tuple(param.shape))
        if self.moments is not None:
            for name in self.names:
                expected |= Layout(self.kind, self.moments).shapes(name, param)
        for name, (dtype, shape) in expected.items():
            got = self.tensors.get(name)
            if got is None or got.dtype != dtype or tuple(got.shape) != shape:
                told = "missing" if got is None else f"{got.dtype} {list(got.shape)}"
                raise ValueError(
                    f"the state of parameter {self.key} does not fit a parameter of shape {list(param.shape)}: {name} "
                    f"is {told}, expected {dtype} {list(shape)}"
                )


def _copied(name: str, value: Any, param: Tensor) -> Any:
    if name == "step":
        return torch.tensor(float(value), dtype=torch.float32)
    return value.detach().to(param.device, copy=True).contiguous() if isinstance(value, Tensor) else value


def _kind(param: Tensor, tensors: Mapping[str, Any], group: Mapping[str, Any]) -> WeightKind:
    found: list[WeightKind] = [kind for kind, (name, _) in EXTRAS.items() if name in tensors]
    if found:
        return found[0]
    if weight_kind(cast("Weights", group.get("weights", "true")), param) == "stochastic":
        return "stochastic"
    return "plain"


def _moments(tensors: Mapping[str, Any], group: Mapping[str, Any], names: tuple[MomentName, ...]) -> Moments | None:
    found = [name.name for name in names if name.name in tensors]
    if not found:
        return None
    kinds: dict[torch.dtype, MomentKind] = {torch.float32: "fp32", torch.bfloat16: "bf16"}
    has_powers = f"{found[0]}_powers" in tensors
    kind = kinds.get(tensors[found[0]].dtype, "e4m3" if has_powers else "dynamic")
    said = group.get("moments", {})
    return normal_moments(Moments(kind=kind, block=said.get("block", 256), expand=said.get("expand", True)))


def _described(moments: Moments) -> str:
    if moments.kind in ("fp32", "bf16"):
        return moments.kind
    expanded = ", no range expansion" if moments.kind == "e4m3" and not moments.expand else ""
    return f"{moments.kind} (block {moments.block}{expanded})"
