"""What the operands of one pass through a site share: random bits, sign vectors, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from ._operand_cast import OperandCast
from ._site import Site
from ._workspace import Workspace

#: Streams of sign vectors: one for each product of a site, which both of its operands share.
_FPROP_SIGNS, _DGRAD_SIGNS, _WGRAD_SIGNS = 0, 1, 2
# Offsets of the operands' random streams within a site.
_INPUT, _WEIGHT, _WEIGHT_BACKWARD, _GRAD = 0, 2, 3, 4
_GEMMS = ("fprop", "wgrad", "fprop", "dgrad", "dgrad", "wgrad")  # by offset


@dataclass(frozen=True, kw_only=True)
class CastContext:
    """What the operands of one pass share.

    Attributes:
        site: whose operands they are.
        role: ``"input"``, ``"weight"`` or ``"grad_output"``.
        random: ``[seed, offset]`` of the pass.
        stream: the operand's first stream of random bits, counted from the site's.
        signs: the streams of the sign vectors of the operand's two products.
        workspace: memory for operands that are not kept.
        slots: where in it the operand's two orientations go; ``None`` for one that is kept.
    """

    site: Site
    role: str
    random: Tensor
    stream: int
    signs: tuple[int, int]
    workspace: Workspace
    slots: tuple[str | None, str | None]

    def next(self) -> CastContext:
        """The context of the operand's second orientation."""
        signs = (self.signs[1], self.signs[1])
        return replace(self, stream=self.stream + 1, signs=signs, slots=(self.slots[1], None))

    @property
    def gemm(self) -> str:
        """The product that this orientation of the operand enters."""
        return _GEMMS[self.stream]

    @property
    def is_forward(self) -> bool:
        """Whether the forward pass casts it."""
        return self.stream < _WEIGHT_BACKWARD

    @property
    def wide(self) -> bool:
        """Whether operands without a cast are widened to fp32 (once, for all products that they enter)."""
        return not self.site.state.native_compute

    @property
    def element_stream(self) -> int:
        """The stream of the elements' random bits."""
        return self.site.stream + self.stream

    @property
    def sign_streams(self) -> tuple[int, int]:
        """The streams of the sign vectors."""
        return self.site.stream + self.signs[0], self.site.stream + self.signs[1]

    @property
    def unplaced(self) -> CastContext:
        """Without places in the workspace: an operand that is laid out anew or kept, or one of several of its role."""
        return replace(self, slots=(None, None))

    def memory(self, x: Tensor, cast: OperandCast | None = None, axis: int = 1) -> Tensor | None:
        """Where the cast of ``x`` goes: of its shape, padded for a transform."""
        slot = self.slots[0]
        if slot is None:
            return None
        return self.workspace.take(slot, padded_shape(x, cast, axis), x.device)


def padded_shape(x: Tensor, cast: OperandCast | None, axis: int) -> list[int]:
    """The shape of a matrix after its cast: whole groups of a transform along the reduction."""
    shape = list(x.shape)
    if cast is not None and cast.transform:
        shape[axis] += -shape[axis] % cast.transform
    return shape


def input_context(site: Site, drawn: Tensor, kept: str | None = None) -> CastContext:
    """The context of an input; ``kept`` is where its second orientation goes."""
    return _context(site, drawn, ("input", _INPUT), (_FPROP_SIGNS, _WGRAD_SIGNS), ("first", kept))


def grad_context(site: Site, drawn: Tensor) -> CastContext:
    """The context of an output's gradient."""
    return _context(site, drawn, ("grad_output", _GRAD), (_DGRAD_SIGNS, _WGRAD_SIGNS), ("first", "second"))


def weight_context(site: Site, drawn: Tensor, axis: int) -> CastContext:
    """The context of a weight that is reduced along ``axis``: 1 in fprop, 0 in dgrad."""
    stream, signs = (_WEIGHT, _FPROP_SIGNS) if axis == 1 else (_WEIGHT_BACKWARD, _DGRAD_SIGNS)
    return _context(site, drawn, ("weight", stream), (signs, signs), ("weight", None))


def _context(
    site: Site, drawn: Tensor, operand: tuple[str, int], signs: tuple[int, int], slots: tuple[str | None, str | None]
) -> CastContext:
    """The context of an operand: its role, and the first of its random streams."""
    role, stream = operand
    workspace = site.state.current.workspace
    return CastContext(site=site, role=role, random=drawn, stream=stream, signs=signs, workspace=workspace, slots=slots)
