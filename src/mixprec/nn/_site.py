"""What a converted module carries: its site's name, its casts, and the state shared by one conversion."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from ..tensors import roll
from ._autograd import is_in_backward
from ._operand_cast import OperandCasts
from ._passing import Pass, Passes, new_random_state
from ._past_passes import PastPasses, Repeated, Span, TrainingPass, memory_of, running_node, unknown_pass
from ._weight_cache import WeightCache
from ._workspace import Workspace

if TYPE_CHECKING:
    from ._function_sites import FunctionSites
    from ._observer import GemmObserver
    from ._operand_watch import OperandWatch
    from ._product_watch import ProductWatch

#: Name of the instance attribute that a converted module keeps its site in.
SITE = "_mixprec_site"
#: Streams of random bits reserved for one site: one for each operand that may round stochastically.
STREAMS_PER_SITE = 8


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
        streams: streams that one forward pass uses.
        histories: amaxes of earlier passes, by the operand's name, for delayed scales.
        functions: the sites of products that modules call as functions.
        observer: who listens to GEMMs, or ``None``.
        watch: who sees operands before they are cast, or ``None``.
        product_watch: who sees products with their results, or ``None``.
        weights: codes of weights that did not change between two casts.
        step: how often a session has updated the weights; ``None`` without one.
        is_twice: whether products without casts can be differentiated twice; their inputs are cast outside of them
            then, which takes a pass more over each gradient.
        passes: training passes that began, but for those in compiled code.
        left: paths of modules that ran in a region that the model's author keeps out of autocast.
    """

    compute_dtype: torch.dtype
    device_type: str
    residual_16bit: bool = False
    native_compute: bool = False
    native_fp8: bool = False
    random: Tensor = field(default_factory=lambda: new_random_state(0))
    streams: int = 0
    histories: dict[str, Tensor] = field(default_factory=lambda: {})
    functions: FunctionSites | None = None
    observer: GemmObserver | None = None
    watch: OperandWatch | None = None
    product_watch: ProductWatch | None = None
    weights: WeightCache = field(default_factory=WeightCache)
    step: int | None = None
    is_twice: bool = False
    passes: int = 0
    left: set[str] = field(default_factory=lambda: set())

    def __post_init__(self) -> None:
        self._begin()
        #: The site of functions that a model calls itself: everything in the compute dtype.
        self.functional = Site(name="", casts=OperandCasts(), stream=0, state=self)

    def __getstate__(self) -> dict[str, Any]:
        """Without observer, watch and running pass: a copy of a model is not measured, watched or in a pass."""
        left_out = {"_in_trace", "_in_thread", "_lock", "_past", "observer", "product_watch", "watch", "weights"}
        return {name: value for name, value in vars(self).items() if name not in left_out}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.observer, self.watch, self.product_watch, self.weights = None, None, None, WeightCache()
        self._begin()

    def _begin(self) -> None:
        self._in_trace = Pass()
        if not torch.compiler.is_compiling():  # a state that a trace makes for one call knows no threads
            self._in_thread, self._lock, self._past = Passes(), threading.Lock(), PastPasses()

    @property
    def is_16bit(self) -> bool:
        """Whether the compute dtype is narrower than fp32."""
        return self.compute_dtype != torch.float32

    @property
    def current(self) -> Pass:
        """The pass of this thread; the one pass of a compiler's trace, which knows no threads."""
        return self._in_trace if torch.compiler.is_compiling() else self._in_thread.own

    def repeated(self, name: str) -> TrainingPass | None:
        """The pass that a running recomputation repeats; ``None`` outside of one, and where nothing depends on it.

        Args:
            name: of the site that asks.

        Raises:
            RuntimeError: it cannot be told.
        """
        if not self._is_drawn_from or not is_in_backward():
            return None
        found = self._recognised(())
        if found is None:
            raise unknown_pass(name or self.where() or "the model")
        return found

    def amax_of_repeated(self, repeated: TrainingPass, name: str) -> Tensor | None:
        """The amax that a delayed scale of a repeated pass came from; ``None``: its history stands as it stood then.

        Raises:
            RuntimeError: it was not needed then (a forward pass without gradients keeps nothing for the weight's), and
                the history has moved on.
        """
        amax = repeated.amaxes.get(name)
        if amax is None and not self._past.is_last(repeated):
            raise RuntimeError(
                f"{name}: a recomputation asks for a delayed scale that its forward pass did not, and other passes "
                "have moved its history since: say use_reentrant=False, or run each backward pass before the next "
                "forward pass"
            )
        return amax

    def note_amax(self, name: str, amax: Tensor) -> None:
        """A delayed scale of the running training pass came from this."""
        training = None if torch.compiler.is_compiling() else self.current.training
        if training is not None and training.runs:
            training.amaxes[name] = amax

    def enter_call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Repeated | None:
        """A module is called: what with is how a recomputation of it is known. Gives what ``leave_call`` takes."""
        if not self._is_drawn_from:
            return None
        current, memory = self.current, memory_of(args, kwargs)
        before = current.repeats
        if is_in_backward():
            training = self._recognised(memory)
            current.repeats = None if training is None else (running_node(), training)
            if training is not None and before is None:
                training.spans.append(Span())
        else:
            training = current.training if current.training is not None and current.training.runs else None
        if training is not None:
            training.inputs |= memory
        return before

    def leave_call(self, before: Repeated | None) -> None:
        """The call is over that began with ``before``."""
        if not self._is_drawn_from:
            return
        current = self.current
        if current.repeats is not None and before is None:
            current.repeats[1].spans[-1].end()
        current.repeats = before

    @property
    def _is_drawn_from(self) -> bool:
        """Whether passes differ, so that it matters which one is repeated."""
        return not torch.compiler.is_compiling() and bool(self.streams or self.histories)

    def _recognised(self, inputs: Iterable[StorageWeakRef]) -> TrainingPass | None:
        """The pass that the running node repeats: that of the module that was called, or found anew."""
        repeats = self.current.repeats
        if repeats is not None and repeats[0] == running_node():
            return repeats[1]
        return self._past.repeated(inputs)

    @property
    def listener(self) -> GemmObserver | None:
        """The observer, or ``None`` where nobody can be told: a compiler's trace must not change what is outside it."""
        return None if torch.compiler.is_compiling() else self.observer

    @property
    def watcher(self) -> OperandWatch | None:
        """Who sees operands, or ``None`` where nobody does: compiled code tells nothing."""
        return None if torch.compiler.is_compiling() else self.watch

    @property
    def product_watcher(self) -> ProductWatch | None:
        """Who sees products, or ``None`` where nobody does: compiled code shows nothing."""
        return None if torch.compiler.is_compiling() else self.product_watch

    def tensors(self) -> dict[str, tuple[Tensor, ...]]:
        """What is kept beside the model between passes, by what it is; workspaces are those of this thread."""
        return {
            "amax histories": tuple(self.histories.values()),
            "random states": (self.random, self.current.drawn, *self._past.tensors),
            "codes of weights": self.weights.tensors,
            "cast workspaces": self.current.workspace.tensors,
        }

    def casts_of(self, kind: str, features: tuple[int, ...] = ()) -> Site | None:
        """The site of a product that the running module calls as a function, if a rule gives it casts."""
        return None if self.functions is None else self.functions.find(self.current.running, kind, features)

    def where(self) -> str:
        """The path of the running module, for whoever observes the step or reads a message."""
        return self.current.running if self.listener is None else self.listener.path()

    def show_to_traces(self) -> None:
        """What runs eagerly, for a part of the model that is compiled by itself: a trace knows no threads."""
        if torch.compiler.is_compiling():
            return
        trace, current = self._in_trace, self.current
        trace.drawn, trace.records, trace.depth = current.drawn, current.records, current.depth

    def draw(self) -> None:
        """Begin a training pass: random bits of its own, and a new place in every history."""
        if torch.compiler.is_compiling():
            self._draw()
        else:
            with self._lock:
                self._draw()
                self.passes += 1
            if self._is_drawn_from:
                self.current.training = self._past.begin(self.current.drawn)

    def look(self) -> None:
        """Begin an evaluation: in a thread that never trained, with the bits that come next; none are used up."""
        current = self.current
        if self.streams and not current.has_drawn:
            current.drawn = self.random.clone()

    def begin_alone(self, workspace: Workspace) -> None:
        """Be the state of one call: the random bits are those that it was made with, the memory that which is given."""
        current = self.current
        current.drawn, current.workspace = self.random, workspace

    def end_pass(self) -> None:
        """The forward pass that ``draw`` began is over."""
        training = None if torch.compiler.is_compiling() else self.current.training
        if training is not None and training.runs:
            training.spans[0].end()

    def _draw(self) -> None:
        if self.streams:
            current = self.current
            current.drawn, current.has_drawn = self.random.clone(), True
            self.random[1] += self.streams
        for history in self.histories.values():
            roll(history)


@dataclass(frozen=True, kw_only=True)
class Site:
    """One converted module or function call: its path, its casts, its streams of random bits, its module's class."""

    name: str
    casts: OperandCasts
    stream: int
    state: ConversionState
    kind: str = ""

    def drawn(self) -> Tensor:
        """``[seed, offset]`` of the running pass, or of the one that a recomputation repeats.

        Raises:
            RuntimeError: a recomputation's pass cannot be told.
        """
        repeated = self.state.repeated(self.name)
        return self.state.current.drawn if repeated is None else repeated.drawn
