"""What a converted module carries: its site's name, its casts, and the state shared by one conversion."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..specs import Cast, LayerPrecision
from ._workspace import Workspace

if TYPE_CHECKING:
    from ._observer import GemmObserver

#: Name of the instance attribute that a converted module keeps its site in.
SITE = "_mixprec_site"
#: Streams of random bits reserved for one site: one for each operand that may round stochastically.
STREAMS_PER_SITE = 8


def new_random_state(seed: int) -> Tensor:
    """The ``[seed, offset]`` that the stochastic casts of one conversion draw from."""
    return torch.tensor([seed, 0], dtype=torch.int64)


@dataclass
class ConversionState:
    """What all sites of one conversion share; mutable, owned by the conversion, copied with the model.

    Attributes:
        compute_dtype: dtype of the activations between GEMMs.
        device_type: where the model lives; the key of torch's autocast state.
        residual_16bit: whether additions stay in the compute dtype.
        native_compute: whether the device multiplies the compute dtype faster than fp32.
        native_fp8: whether the device multiplies FP8 operands with per-tensor or per-row scales.
        random: ``[seed, offset]`` of the next forward pass.
        drawn: ``[seed, offset]`` of the running forward pass.
        streams: streams that one forward pass uses.
        observer: who listens to GEMMs, or ``None``.
        workspace: memory for operands, held during a pass.
    """

    compute_dtype: torch.dtype
    device_type: str
    residual_16bit: bool = False
    native_compute: bool = False
    native_fp8: bool = False
    random: Tensor = field(default_factory=lambda: new_random_state(0))
    drawn: Tensor = field(default_factory=lambda: new_random_state(0))
    streams: int = 0
    observer: GemmObserver | None = None
    workspace: Workspace = field(default_factory=Workspace)

    def __post_init__(self) -> None:
        #: The site of functions that a model calls itself: everything in the compute dtype.
        self.functional = Site(name="", casts=OperandCasts(), stream=0, state=self)

    def __getstate__(self) -> dict[str, Any]:
        """Without the observer and the workspace: a copy of a model is neither measured nor in the middle of a pass."""
        return {**vars(self), "observer": None, "workspace": Workspace()}

    @property
    def is_16bit(self) -> bool:
        """Whether the compute dtype is narrower than fp32."""
        return self.compute_dtype != torch.float32

    @property
    def listener(self) -> GemmObserver | None:
        """The observer, or ``None`` where nobody can be told: a compiler's trace must not change what is outside it."""
        return None if torch.compiler.is_compiling() else self.observer

    def where(self) -> str:
        """The path of the running module, for whoever observes the step."""
        return "" if self.listener is None else self.listener.path()

    def draw(self) -> None:
        """Give the forward pass that starts now random bits of its own."""
        if self.streams:
            self.drawn = self.random.clone()
            self.random[1] += self.streams


@dataclass(frozen=True, kw_only=True)
class OperandCast:
    """One operand's cast, with what the GEMM has to know of it worked out beforehand.

    Attributes:
        text: the cast's one-line form.
        transform: size of its Hadamard transform, 0 for none.
        signs: whether that flips signs.
        after_transform: the one-line form of what follows the transform.
        scaled: whether values share a scale.
        has_outer: whether a scale is left to apply to the output (an MX scale is inside the carrier).
        ignores_axis: whether both orientations of a matrix get the same values.
        stochastic: whether it needs random bits.
    """

    text: str
    transform: int
    signs: bool
    after_transform: str
    scaled: bool
    has_outer: bool
    ignores_axis: bool
    stochastic: bool

    @property
    def is_fusable(self) -> bool:
        """Whether it can share the read of a matrix with the cast along the other axis."""
        return self.scaled and not self.transform

    @classmethod
    def of(cls, cast: Cast) -> OperandCast:
        """What the GEMM has to know of ``cast``."""
        kind = cast.granularity.kind
        return cls(
            text=str(cast),
            transform=cast.transform,
            signs=cast.random_signs,
            after_transform=str(replace(cast, transform=0, random_signs=False)),
            scaled=kind != "none",
            has_outer=kind != "none" and cast.scale != "e8m0",
            ignores_axis=kind in ("none", "tensor"),
            stochastic=cast.rounding == "stochastic",
        )


@dataclass(frozen=True, kw_only=True)
class OperandCasts:
    """The six casts of a layer precision; ``None`` keeps an operand in the compute dtype."""

    fprop_input: OperandCast | None = None
    fprop_weight: OperandCast | None = None
    dgrad_grad_output: OperandCast | None = None
    dgrad_weight: OperandCast | None = None
    wgrad_grad_output: OperandCast | None = None
    wgrad_input: OperandCast | None = None

    @classmethod
    def of(cls, precision: LayerPrecision | None) -> OperandCasts:
        """The casts of ``precision``; ``None`` keeps every operand in the compute dtype."""
        if precision is None:
            return cls()
        casts = {f.name: precision.operand(f.name) for f in fields(cls)}
        return cls(**{name: None if cast is None else OperandCast.of(cast) for name, cast in casts.items()})

    @property
    def present(self) -> tuple[OperandCast, ...]:
        """The casts that are not ``None``."""
        casts: list[OperandCast | None] = [getattr(self, f.name) for f in fields(self)]
        return tuple(cast for cast in casts if cast is not None)

    @property
    def stochastic(self) -> bool:
        """Whether any operand rounds stochastically."""
        return any(cast.stochastic for cast in self.present)


@dataclass(frozen=True, kw_only=True)
class Site:
    """One converted module: its path, its casts, its streams of random bits."""

    name: str
    casts: OperandCasts
    stream: int
    state: ConversionState
