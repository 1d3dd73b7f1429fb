"""Block formats: an element format and the scales that tiles of elements share."""

from __future__ import annotations

from dataclasses import dataclass

from ._registry import get_format


@dataclass(frozen=True, kw_only=True)
class BlockFormat:
    """Elements of one format whose tiles share a scale: ``value = decode(code) * scale``.

    Attributes:
        name: the registered name, e.g. ``"mxfp8"``.
        element: name of the element format.
        block: the tile that shares a scale, (outer, reduction) of that GEMM's operand.
        scale: name of the format of the tile's scale.
        tensor_scale: name of the format of a second scale for the whole tensor, or ``None``.
        source: where the definition comes from.

    Example:
        >>> BlockFormat(name="mine", element="e2m1", block=(1, 16), scale="e8m0").bits_per_element
        4.5
    """

    name: str
    element: str
    block: tuple[int, int]
    scale: str
    tensor_scale: str | None = None
    source: str = ""

    @property
    def bits_per_element(self) -> float:
        """Stored bits per element with the tile's scale in whole bytes; a tensor's one scale is not counted."""
        outer, reduction = self.block
        return get_format(self.element).bits + 8 * -(-get_format(self.scale).bits // 8) / (outer * reduction)
