"""Who sees operands before they are cast: told of each cast while somebody watches, and of nothing else.

Compiled code tells nothing: a trace must not change what is outside of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from torch import Tensor

from ._operand import FORMAT_OF_DTYPE

if TYPE_CHECKING:
    from ._cast_context import CastContext
    from ._operand_cast import OperandCast
    from ._site import Site

Role = Literal["input", "weight", "grad_output"]
Gemm = Literal["fprop", "dgrad", "wgrad"]


@dataclass(frozen=True, kw_only=True)
class SeenOperand:
    """An operand before its cast.

    Attributes:
        site: module path, and what is called there for a function.
        role: ``"input"``, ``"weight"`` or ``"grad_output"``.
        gemm: that it enters: ``"fprop"``, ``"dgrad"`` or ``"wgrad"``.
        x: its values; a matrix (or, where ``cast`` has no blocks, of any shape). Of the pass, and overwritten later.
        cast: what rounds ``x`` as it lies; a dtype's short name where it has no cast.
        name: the cast that the recipe asks for, of which ``cast`` may be a form for another layout.
        axis: of ``x`` that the reduction runs along.
        random: ``[seed, offset]`` of random bits.
        stream: of the elements' random bits.
        sign_stream: of the transform's signs.
        amax: what a delayed scale comes from, else ``None``.
    """

    site: str
    role: str
    gemm: str
    x: Tensor
    cast: str
    name: str
    axis: int = 1
    random: Tensor | None = None
    stream: int = 0
    sign_stream: int = 0
    amax: Tensor | None = None


class OperandWatch(Protocol):
    """Who is told of each operand before it is cast."""

    def operand(self, seen: SeenOperand) -> None:
        """An operand; it may be read until the call returns, and not be changed."""
        ...


def see(x_RC: Tensor, cast: OperandCast, axis: int, context: CastContext, amax: Tensor | None = None) -> None:
    """Tell of an operand that is cast, or was and is read from its codes."""
    if context.site.state.watcher is not None:
        _tell(x_RC, cast, axis, context, amax)


def see_made(make: Callable[[], Tensor], cast: OperandCast, axis: int, context: CastContext) -> None:
    """As ``see``, of a layout that is made only if somebody watches."""
    if context.site.state.watcher is not None:
        _tell(make(), cast, axis, context, None)


def see_plain(x: Tensor, role: Role, gemm: Gemm, site: Site, where: str) -> None:
    """Tell of an operand that has no cast, before it is brought to the compute dtype.

    Args:
        x: any shape.
        role: of it.
        gemm: that it enters.
        site: of the product.
        where: its name, where the site has none.
    """
    watcher = site.state.watcher
    if watcher is not None and getattr(site.casts, f"{gemm}_{role}") is None:
        name = FORMAT_OF_DTYPE[site.state.compute_dtype]
        watcher.operand(SeenOperand(site=site.name or where, role=role, gemm=gemm, x=x, cast=name, name=name))


def _tell(x: Tensor, cast: OperandCast, axis: int, context: CastContext, amax: Tensor | None) -> None:
    site, watcher, gemm = context.site, context.site.state.watcher, context.gemm
    asked: OperandCast | None = getattr(site.casts, f"{gemm}_{context.role}")
    if watcher is not None:
        watcher.operand(
            SeenOperand(
                site=site.name or site.state.where(),
                role=context.role,
                gemm=gemm,
                x=x,
                cast=cast.text,
                name=cast.text if asked is None else asked.text,
                axis=axis,
                random=context.random,
                stream=context.element_stream,
                sign_stream=context.sign_streams[0],
                amax=amax,
            )
        )
