"""Layer precision: the casts of the six operands of a layer's three matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..formats import unknown_name
from ._accumulator import Accumulator
from ._cast import Cast
from ._kinds import check_kinds, one_of
from ._parse import parse_cast

OPERANDS = (
    "fprop_input",
    "fprop_weight",
    "dgrad_grad_output",
    "dgrad_weight",
    "wgrad_grad_output",
    "wgrad_input",
)


ROLES = ("input", "weight", "grad_output")


def operands_of(role: str) -> tuple[str, ...]:
    """The operands of the three products that have a role.

    Raises:
        ValueError: no such role.

    Example:
        >>> operands_of("weight")
        ('fprop_weight', 'dgrad_weight')
    """
    if role not in ROLES:
        raise unknown_name("role", role, ROLES)
    return tuple(name for name in OPERANDS if name.partition("_")[2] == role)


@dataclass(frozen=True, kw_only=True)
class LayerPrecision:
    """How a layer multiplies: fprop is input x weight, dgrad grad_output x weight, wgrad grad_output x input.

    ``None`` for a cast leaves that operand in the compute dtype. Each block of a cast is (outer,
    reduction) of the product that the operand goes into, so the input of fprop and that of wgrad are
    rounded along different axes.

    Attributes:
        fprop_input: cast of the input in the forward product.
        fprop_weight: cast of the weight in the forward product.
        dgrad_grad_output: cast of the output's gradient in the product that gives the input's gradient.
        dgrad_weight: cast of the weight there.
        wgrad_grad_output: cast of the output's gradient in the product that gives the weight's gradient.
        wgrad_input: cast of the input there.
        output: the dtype that fprop and dgrad give: ``"compute"``, the recipe's compute dtype.
        accumulator: what the three products are summed in, where that is narrower than fp32.

    Raises:
        ValueError: another output, or the operands of one product disagree about the transform.
        TypeError: an operand that is no ``Cast`` (``of``, ``uniform`` and ``by_pass`` read one-line forms).

    Example:
        >>> str(LayerPrecision.of(input="e4m3[tensor]", grad_output="e5m2[tensor]").wgrad_grad_output)
        'e5m2[tensor]'
    """

    fprop_input: Cast | None = None
    fprop_weight: Cast | None = None
    dgrad_grad_output: Cast | None = None
    dgrad_weight: Cast | None = None
    wgrad_grad_output: Cast | None = None
    wgrad_input: Cast | None = None
    output: Literal["compute"] = "compute"
    accumulator: Accumulator | None = None

    def __post_init__(self) -> None:
        casts = dict.fromkeys(OPERANDS, one_of(Cast, optional=True))
        check_kinds("layer precision", self, {**casts, "accumulator": one_of(Accumulator, optional=True)})
        if self.output != "compute":
            raise ValueError(f"output is '{self.output}', expected 'compute': other outputs are not in this version")
        pairs = zip(OPERANDS[::2], OPERANDS[1::2], strict=True)
        for left, right in pairs:
            if _transform_of(self.operand(left)) != _transform_of(self.operand(right)):
                raise ValueError(
                    f"{left} is '{self.operand(left)}' and {right} is '{self.operand(right)}': both operands of a "
                    "product need the same transform, or it does not cancel"
                )

    @classmethod
    def uniform(cls, cast: Cast | str, *, accumulator: Accumulator | None = None) -> LayerPrecision:
        """Use one cast for all six operands.

        Example:
            >>> LayerPrecision.uniform("mxfp8 rceil").is_uniform
            True
        """
        return cls.of(input=cast, weight=cast, grad_output=cast, accumulator=accumulator)

    @classmethod
    def of(
        cls,
        *,
        input: Cast | str | None = None,
        weight: Cast | str | None = None,
        grad_output: Cast | str | None = None,
        accumulator: Accumulator | None = None,
    ) -> LayerPrecision:
        """Use one cast for each role, in both products that the role goes into."""
        inputs, weights, gradients = map(_read, (input, weight, grad_output))
        return cls(
            fprop_input=inputs,
            fprop_weight=weights,
            dgrad_grad_output=gradients,
            dgrad_weight=weights,
            wgrad_grad_output=gradients,
            wgrad_input=inputs,
            accumulator=accumulator,
        )

    @classmethod
    def by_pass(
        cls,
        *,
        forward: Cast | str | None = None,
        backward: Cast | str | None = None,
        accumulator: Accumulator | None = None,
    ) -> LayerPrecision:
        """Use one cast for both operands of the forward product, and one for those of the two backward products.

        Example:
            >>> str(LayerPrecision.by_pass(forward="mxfp4", backward="mxfp4 sr").wgrad_input)
            'mxfp4 sr'
        """
        forwards, backwards = map(_read, (forward, backward))
        return cls(
            fprop_input=forwards,
            fprop_weight=forwards,
            dgrad_grad_output=backwards,
            dgrad_weight=backwards,
            wgrad_grad_output=backwards,
            wgrad_input=backwards,
            accumulator=accumulator,
        )

    def operand(self, name: str) -> Cast | None:
        """Give the cast of one of ``OPERANDS`` by name."""
        cast: Cast | None = getattr(self, name)
        return cast

    @property
    def is_uniform(self) -> bool:
        """Whether all six operands have the same cast."""
        return len({self.operand(name) for name in OPERANDS}) == 1


def _read(cast: Cast | str | None) -> Cast | None:
    return parse_cast(cast) if isinstance(cast, str) else cast


def _transform_of(cast: Cast | None) -> tuple[int, str]:
    return (cast.transform, cast.signs) if cast else (0, "none")
