"""What ``initialize`` may be told, and the level's properties that come of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, TypedDict

import torch
import torch.distributed as dist

from ...formats import unknown_name
from ...specs import LossScale

_16_BIT = (torch.float16, torch.bfloat16)
_SMALLEST, _INITIAL = 2.0**-24, 2.0**16


class Options(TypedDict, total=False):
    """The keywords of ``initialize``; what is ``None`` or left out is as the level says.

    Attributes:
        cast_model_type: what the model's parameters, inputs and products have: ``torch.float16``, ``bfloat16`` or
            ``float32``.
        patch_torch_functions: whether functions cast their operands; ``True`` in O1 only.
        keep_batchnorm_fp32: whether batch norms keep fp32; a bool, or ``"True"`` or ``"False"``.
        master_weights: whether the optimizers update fp32 masters of 16-bit parameters.
        loss_scale: a number, one as text, or ``"dynamic"``.
        cast_model_outputs: a dtype that outputs are cast to; else fp32.
        num_losses: how many losses have a scale of their own.
        verbosity: 0: skipped steps are not logged.
        min_loss_scale: the smallest dynamic scale; ``None``: 2^-24.
        max_loss_scale: the largest.
        process_group: the ranks that skip a step together: ``"default"``: all, where ``torch.distributed`` is
            initialised; ``None``: each by itself.
    """

    cast_model_type: torch.dtype | None
    patch_torch_functions: bool | None
    keep_batchnorm_fp32: bool | str | None
    master_weights: bool | None
    loss_scale: float | str | None
    cast_model_outputs: torch.dtype | None
    num_losses: int
    verbosity: int
    min_loss_scale: float | None
    max_loss_scale: float
    process_group: dist.ProcessGroup | Literal["default"] | None


@dataclass(frozen=True, kw_only=True)
class Properties:
    """What a level means.

    Attributes:
        opt_level: its name.
        cast_model_type: of parameters, inputs and products; ``None``: the model stays as it is.
        patch_torch_functions: whether functions cast their operands.
        keep_batchnorm_fp32: whether batch norms keep fp32.
        master_weights: whether 16-bit parameters have masters.
        loss_scale: a number, or ``"dynamic"``.
    """

    opt_level: str
    cast_model_type: torch.dtype | None = None
    patch_torch_functions: bool = False
    keep_batchnorm_fp32: bool | None = None
    master_weights: bool | None = None
    loss_scale: float | str = 1.0

    @property
    def is_narrow(self) -> bool:
        """Whether the model's parameters become 16-bit ones."""
        return self.cast_model_type in _16_BIT

    @property
    def compute(self) -> torch.dtype | None:
        """The 16-bit dtype of products, if they have one."""
        if self.is_narrow:
            return self.cast_model_type
        return torch.float16 if self.patch_torch_functions else None


_LEVELS: Mapping[str, Properties] = {
    "O0": Properties(opt_level="O0", cast_model_type=torch.float32, master_weights=False),
    "O1": Properties(opt_level="O1", patch_torch_functions=True, loss_scale="dynamic"),
    "O2": Properties(
        opt_level="O2",
        cast_model_type=torch.float16,
        keep_batchnorm_fp32=True,
        master_weights=True,
        loss_scale="dynamic",
    ),
    "O3": Properties(opt_level="O3", cast_model_type=torch.float16, keep_batchnorm_fp32=False, master_weights=False),
}


def properties_of(opt_level: str, options: Options) -> Properties:
    """The level's properties with what was told instead.

    Raises:
        ValueError: an unknown level, or something that does not go with it.
        TypeError: an option that there is not, or of another kind.
    """
    unknown = options.keys() - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"initialize: got {', '.join(sorted(unknown))}, expected {', '.join(Options.__annotations__)}")
    if opt_level not in _LEVELS:
        raise unknown_name("opt_level (the letter O and a digit)", opt_level, tuple(_LEVELS))
    given: dict[str, Any] = {k: v for k, v in options.items() if v is not None and k in Properties.__annotations__}
    _check_level(opt_level, given)
    for name in ("keep_batchnorm_fp32", "master_weights", "patch_torch_functions"):
        if name in given:
            given[name] = _truth(name, given[name])
    if given.get("cast_model_type") not in (None, torch.float32, *_16_BIT):
        raise ValueError(
            f"initialize: cast_model_type is {given['cast_model_type']}, expected torch.float16, torch.bfloat16 or "
            'torch.float32; narrower formats belong to layers: mixprec.convert(model, "fp8") in a loop of your own'
        )
    if "loss_scale" in given:
        given["loss_scale"] = _scale(given["loss_scale"])
    return replace(_LEVELS[opt_level], **given)


def loss_scale_of(properties: Properties, options: Options) -> LossScale:
    """How each loss is scaled.

    Raises:
        ValueError: numbers out of order.
        TypeError: no numbers.
    """
    if properties.loss_scale != "dynamic":
        scale = float(properties.loss_scale)
        return LossScale(kind="static", initial=scale, minimum=min(_SMALLEST, scale))
    largest, smallest = options.get("max_loss_scale", 2.0**24), options.get("min_loss_scale")
    initial = min(_INITIAL, largest)
    return LossScale(
        kind="dynamic",
        initial=initial if smallest is None else max(initial, smallest),
        minimum=min(_SMALLEST, initial) if smallest is None else smallest,
        maximum=largest,
    )


def count_of(options: Options) -> int:
    """How many losses there are.

    Raises:
        ValueError: less than one.
        TypeError: no integer.
    """
    count: Any = options.get("num_losses", 1)
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"initialize: num_losses is {count!r} ({type(count).__name__}), expected an integer")
    if count < 1:
        raise ValueError(f"initialize: num_losses is {count}, expected 1 or more")
    return count


def _check_level(opt_level: str, given: Mapping[str, Any]) -> None:
    if opt_level != "O1":
        if given.get("patch_torch_functions"):
            raise ValueError(
                f"initialize: patch_torch_functions=True with opt_level {opt_level}: functions cast their operands "
                "in O1 only; use opt_level='O1'"
            )
        return
    reasons = {
        "cast_model_type": "the model's weights stay fp32 and functions cast them; use O2 or O3 for a model of 16 bits",
        "keep_batchnorm_fp32": "batch norms stay fp32 by themselves; leave it out",
        "master_weights": "the model's weights are fp32 already; leave it out",
    }
    for name, reason in reasons.items():
        if name in given and given[name] not in (False, torch.float32):
            raise ValueError(f"initialize: {name}={given[name]} with opt_level O1: {reason}")


def _truth(name: str, value: Any) -> bool:
    named = {"True": True, "False": False}
    if isinstance(value, bool):
        return value
    if name == "keep_batchnorm_fp32" and value in named:
        return named[value]
    raise TypeError(f"initialize: {name} is {value!r} ({type(value).__name__}), expected True, False or None")


def _scale(value: Any) -> float | str:
    if value == "dynamic":
        return "dynamic"
    try:
        scale = math.nan if isinstance(value, bool) or not isinstance(value, Real | str) else float(value)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and 0 < scale <= 2.0**127):
        raise ValueError(
            f"initialize: loss_scale is {value!r}, expected 'dynamic' or a number above 0 and at most 2^127, which may "
            "be written as text"
        )
    return scale
