"""What is known of the tensors of a step: their range, where they come from, and what they have passed through."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from ._place import Place

NARROW = (torch.float16, torch.bfloat16)
#: Floating dtypes whose values are looked at.
MEASURED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
#: From this magnitude on a negative number in data or a buffer is taken for a mask's.
DATA_MASK_FROM = 9.9e3
#: Operations whose results have no values yet; kernels that are no operators may write them.
EMPTY = frozenset(["empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"])
_PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one tensor.

    Attributes:
        low: smallest finite value; 0 where there is none.
        high: largest finite value.
        nonfinite: elements that are inf or NaN.
        has_nan: whether a NaN is among them.
        has_inf: whether +inf is among them.
        dtype: of the tensor.
        maker: the operation that made it (views and casts are looked through); empty for parameters and batches.
        place: where that was.
        narrowed: 16-bit dtype that the values were rounded to last, before a wider one took them.
        rounded: 16-bit dtype that they, or a factor of them, were rounded to, digits lost.
        kept: 16-bit dtype that they would have but for the recipe's fp32 operations.
        widened: dtype of what this library widened, right before.
        probability: where the sigmoid or softmax ran that it comes from.
        is_mask: whether its large values were put there by a constant.
    """

    low: float = 0.0
    high: float = 0.0
    nonfinite: int = 0
    has_nan: bool = False
    has_inf: bool = False
    dtype: torch.dtype = torch.float32
    maker: str = ""
    place: Place | None = None
    narrowed: torch.dtype | None = None
    rounded: torch.dtype | None = None
    kept: torch.dtype | None = None
    widened: torch.dtype | None = None
    probability: Place | None = None
    is_mask: bool = False

    @property
    def is_memory(self) -> bool:
        """Whether it was made without values: kernels that are no operators may write them."""
        return self.maker in EMPTY

    @property
    def amax(self) -> float:
        """Largest finite magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def reach(self) -> float:
        """Largest finite magnitude, but for what a mask has put there."""
        return self.high if self.is_mask else self.amax

    @property
    def is_finite(self) -> bool:
        """Whether all elements are finite."""
        return self.nonfinite == 0


class Values:
    """The facts of all tensors that a watched step has made, for as long as the tensors live."""

    def __init__(self) -> None:
        self._facts = WeakTensorKeyDictionary()

    def of(self, x: Tensor) -> Facts:
        """What is known of a tensor; one that no watched operation made is measured now."""
        known: Facts | None = self._facts.get(x)
        if known is None:
            known = measured(x)
            # A constant of the author's: data and buffers, no parameter and nothing that gradients flow to.
            is_mask = not x.requires_grad and known.low <= -DATA_MASK_FROM
            known = replace(known, is_mask=is_mask, rounded=x.dtype if uses_last_digit(x) else None)
            self._facts[x] = known
        return known

    def read(self, x: Tensor) -> Facts:
        """What is known of a tensor that an operation reads: memory that a kernel may have filled is measured anew."""
        known = self.of(x)
        return replace(measured(x), maker=known.maker, place=known.place) if known.is_memory else known

    def note(self, x: Tensor, facts: Facts) -> None:
        """Remember what is known of a result."""
        self._facts[x] = facts


def is_measurable(x: Any) -> bool:
    """Whether a value is a plain tensor of a dtype whose range can be read here."""
    return type(x) in _PLAIN and x.layout == torch.strided and x.dtype in MEASURED and x.device.type != "meta"


def uses_last_digit(x: Tensor) -> bool:
    """Whether 16-bit values need all the digits that they have, as those do that were rounded to them.

    Numbers of few digits (powers of two; in bf16 whole ones up to 256, in fp16 up to 2,048) were not.
    """
    if x.dtype not in NARROW or not is_measurable(x) or x.numel() == 0:
        return False
    with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        value = x.detach()
        if bool((value == value.round()).all()) and float(value.abs().max()) * torch.finfo(x.dtype).eps <= 2:
            return False
        odd = (value.contiguous().view(torch.int16) & 1) != 0
        return bool((odd & torch.isfinite(value) & (value != 0)).any())


def measured(x: Tensor) -> Facts:
    """Range and non-finite elements of a tensor; one that cannot be looked at counts as finite."""
    if not is_measurable(x) or x.numel() == 0:
        return Facts(dtype=x.dtype)
    with torch.no_grad(), torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
        value = x.detach()
        low, high = torch.stack([t.double() for t in torch.aminmax(value)]).tolist()
        if abs(low) < float("inf") and abs(high) < float("inf"):
            return Facts(low=low, high=high, dtype=x.dtype)
        finite = torch.isfinite(value)
        inner = value[finite]
        low, high = (float(t) for t in torch.aminmax(inner)) if inner.numel() else (0.0, 0.0)
        return Facts(
            low=low,
            high=high,
            nonfinite=int(value.numel() - finite.sum()),
            has_nan=bool(torch.isnan(value).any()),
            has_inf=bool((value == float("inf")).any()),
            dtype=x.dtype,
        )
