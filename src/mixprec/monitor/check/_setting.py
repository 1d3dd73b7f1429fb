"""What a check is about: model, recipe, optimizers and loss scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.optim import Optimizer

from ...nn import Conversion


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a check is about.

    Attributes:
        model: the root.
        optimizers: that train it.
        conversion: of the model, or ``None``.
        loss_scale: what the loss is multiplied by.
        is_dynamic: whether that follows the gradients.
        clip_norm: largest norm of the gradients.
        rounds_weights: whether 16-bit weights that the optimizers hold are rounded to nearest; ``None``: look at the
            optimizers.
        step: applied steps before.
    """

    model: nn.Module
    optimizers: Sequence[Optimizer] = ()
    conversion: Conversion | None = None
    loss_scale: float = 1.0
    is_dynamic: bool = False
    clip_norm: float | None = None
    rounds_weights: bool | None = None
    step: int = 0
    names: dict[nn.Parameter, str] = field(init=False, default_factory=dict[nn.Parameter, str])

    def __post_init__(self) -> None:
        self.names.update({p: name for name, p in self.model.named_parameters()})

    @property
    def recipe(self) -> str:
        """Name of the recipe; empty for a model that is not converted."""
        return "" if self.conversion is None else self.conversion.recipe.name

    @property
    def compute(self) -> torch.dtype | None:
        """The 16-bit dtype that the recipe computes in; ``None``: none, or no recipe."""
        if self.conversion is None:
            return None
        return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.conversion.recipe.compute_dtype)
