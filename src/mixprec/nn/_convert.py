"""Conversion of a model in place: what changes, what is told, and the way back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..specs import LayerPrecision, Recipe, load_recipe
from ._audit import Audit, AuditRow, make_rows
from ._class_swap import base_class
from ._compute_mode import ComputeMode
from ._device import device_of, native_compute, native_here
from ._foreign import notes_on_left_alone
from ._matching import Matched, match_rules
from ._observer import GemmObserver, observing
from ._operand_cast import OperandCasts
from ._operand_watch import OperandWatch
from ._parameter_dtypes import refuse_parameter_dtypes
from ._passing import new_random_state
from ._precisions import precisions_of
from ._product_watch import ProductWatch
from ._refusals import refuse_no_model, refuse_unconvertible
from ._region import PATH
from ._resolve import emulation_note, kept_dtypes, notes_about, resolve
from ._site import SITE, ConversionState
from ._site_assignment import assign_sites
from ._step_start import StepStart
from ._uncompiled import has_compiled_parts
from ._user_regions import ATTRIBUTE

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_HANDLE = "_mixprec_conversion"
_COMPILED = (
    "the measured step was compiled by torch.compile, whose products cannot be counted: run one step of the model "
    "before compiling it; its numbers are the eager ones bit for bit under aot_eager, and to rounding under Inductor"
)
_PARTS = (
    "parts of the model that torch.compile compiles ran uncompiled in the measured step, for the products of compiled "
    "code cannot be counted; other steps run them compiled"
)


def convert(model: nn.Module, recipe: Recipe | str, *, seed: int = 0) -> Conversion:
    """Make ``model`` compute as ``recipe`` says, in place.

    Parameters, their names and the ``state_dict`` stay as they are; ``isinstance`` holds. Needs no optimizer: the
    training loop stays whoever's it was.

    Args:
        model: on its device, not compiled, not sharded.
        recipe: a recipe, a recipe's name or the path of its TOML file; ``auto`` is resolved for the model's device.
        seed: of the stochastic casts.

    Raises:
        TypeError: ``model`` is no module.
        ValueError: a model that is compiled, scripted, sharded or converted already; a rule without a layer;
            a module of 16 bits (a norm, say) that would be given fp32.

    Warns:
        UserWarning: the model is on an accelerator that only emulates the recipe.
    """
    refuse_no_model(model)
    refuse_unconvertible(model)
    recipe = resolve(recipe if isinstance(recipe, Recipe) else load_recipe(recipe), model)
    matched = match_rules(model, recipe)
    refuse_parameter_dtypes(model, recipe, matched, DTYPES[recipe.compute_dtype])
    state = _new_state(model, recipe, seed)
    conversion = Conversion(model, recipe, state, matched)
    try:
        conversion.apply_rules(recipe, matched)
    except ValueError:
        conversion.restore()
        raise
    model.__dict__[_HANDLE] = conversion
    note = emulation_note(model, recipe, state)
    if note is not None:
        warnings.warn(note, stacklevel=2)
    return conversion


def conversion_of(model: nn.Module) -> Conversion | None:
    """The conversion that ``model`` is the root of, or ``None``."""
    return model.__dict__.get(_HANDLE)


class Conversion:
    """A converted model's handle.

    Attributes:
        model: the root module.
        recipe: with ``auto`` resolved.
        notes: what was told at conversion.
    """

    def __init__(self, model: nn.Module, recipe: Recipe, state: ConversionState, matched: Matched) -> None:
        self.model, self.recipe, self.state = model, recipe, state
        self.notes: tuple[str, ...] = ()
        self._alone, self._structure = dict(matched.alone), matched.structure
        self._step_start = StepStart.of(state)
        self._rows: tuple[AuditRow, ...] = ()
        self._measured_notes: tuple[str, ...] = ()

    def apply_rules(self, recipe: Recipe, matched: Matched | None = None) -> None:
        """Give every layer and function call the casts that rules say: at conversion, or when a phase begins.

        Histories of operands whose cast stays are carried over.

        Args:
            recipe: whose rules are applied; its other parts are those of the conversion.
            matched: what its rules say of the modules, if that is known.

        Raises:
            ValueError: a layer cannot multiply what a rule gives it.
        """
        matched = match_rules(self.model, recipe) if matched is None else matched
        assign_sites(self.model, recipe, matched, self.state, tracks=_has_casts(self.recipe))
        self._step_start = StepStart.of(self.state)
        if not self.notes:
            alone = () if self._leaves_all else notes_on_left_alone(self._alone, recipe.name)
            self.notes = notes_about(self.model, recipe, self.state, reaches=matched.reaches) + matched.notes + alone

    def precisions(self) -> dict[str, LayerPrecision]:
        """The casts that each site has now, by its name; those in the compute dtype are left out."""
        return precisions_of(self.model, self.state)

    @property
    def _leaves_all(self) -> bool:
        return self.recipe.compute_dtype == "fp32" and not _has_casts(self.recipe)

    def restore(self) -> None:
        """Give every module its own class back.

        Raises:
            ValueError: when the model has been sharded since; nothing is changed then.
        """
        refuse_unconvertible(self.model, restoring=True)
        for module in self.model.modules():
            if SITE in module.__dict__ or ATTRIBUTE in module.__dict__:
                module.__class__ = base_class(module)
                module.__dict__.pop(SITE, None)
                module.__dict__.pop(ATTRIBUTE, None)
                module.__dict__.pop(PATH, None)
        self.model.__dict__.pop(_HANDLE, None)
        self.state.current.workspace.release()

    @contextmanager
    def region(self) -> Generator[None]:
        """To be entered around the backward pass: recomputed functions follow the compute dtype's rules.

        Inside, autocast is off whatever is outside: torch would cast the operands of its own backward products too.
        (Recomputation restores the state of its forward pass.)
        """
        observer = self.state.observer
        # A compiled forward pass cannot be observed; its backward pass alone would tell half the truth.
        seen = observer if observer is not None and observer.was_on else None
        with torch.autocast(self.state.device_type, enabled=False), ComputeMode(self.state), observing(seen):
            yield
        if observer is not None:
            self._end_measurement(observer)

    def measure_next_step(self) -> None:
        """Count the GEMMs of the next forward pass and of the next backward pass inside ``region()``."""
        self.state.observer = GemmObserver(self.model, leaves_all=self._leaves_all)

    @property
    def is_measuring(self) -> bool:
        """Whether a step that is to be measured has not ended yet."""
        return self.state.observer is not None

    @contextmanager
    def measured(self) -> Generator[None]:
        """Count all GEMMs of the forward and backward pass inside, for a loop that is not a session's."""
        observer = self.state.observer = GemmObserver(self.model, leaves_all=self._leaves_all)
        try:
            with observer:
                yield
        finally:
            self._end_measurement(observer)

    @contextmanager
    def watched_by(self, watch: OperandWatch) -> Generator[None]:
        """``watch`` sees every operand of the conversion's products before it is cast, forward and backward.

        Of compiled code it sees nothing.
        """
        before, self.state.watch = self.state.watch, watch
        try:
            yield
        finally:
            self.state.watch = before

    @contextmanager
    def products_shown_to(self, watch: ProductWatch) -> Generator[None]:
        """``watch`` sees every product that has casts, with its result, and may put another in its place.

        Of compiled code it sees nothing.
        """
        before, self.state.product_watch = self.state.product_watch, watch
        try:
            yield
        finally:
            self.state.product_watch = before

    def module_of_nodes(self) -> Callable[[int], str | None] | None:
        """Tells which module's forward made a node of the graph, by the node's number, in the step that is measured.

        Its answer is a path, ``"<model>"`` for the root's own operations, and ``None`` for what was made outside of the
        model (the loss). It stays good after the step. ``None`` in its place: no step is measured, or one that was
        compiled, which shows no modules.
        """
        observer = self.state.observer
        return observer.made_in if observer is not None and observer.was_on else None

    def kept_tensors(self) -> dict[str, tuple[Tensor, ...]]:
        """Tensors that the conversion keeps beside the model, by what they are; workspaces are those of this thread."""
        kept, start = self.state.tensors(), self._step_start
        kept["amax histories"] += tuple(start.histories.values())
        kept["random states"] += (start.random,)
        return kept

    def audit(self) -> Audit:
        """Format and engine of every GEMM of the last measured step."""
        notes = (*self.notes, *self._measured_notes)
        return Audit(recipe=self.recipe.name, rows=self._rows, kept=kept_dtypes(self.model), notes=notes)

    def begin_step(self) -> None:
        """Remember the random bits' position and the histories: a step that is discarded consumes none.

        From the first call on, ``commit_step`` has to be told of every update of the weights.
        """
        self.state.step = self.state.step or 0
        self._step_start = StepStart.of(self.state)

    def commit_step(self) -> None:
        """The step was applied: its random bits are used up, and weights have changed."""
        self.state.step = (self.state.step or 0) + 1
        self.state.weights.drop_stale()
        self.begin_step()

    def discard_step(self) -> None:
        """The step was skipped: give its random bits back, and forget its amaxes."""
        self._step_start.restore(self.state)

    def position(self) -> tuple[int, int]:
        """Changes with every training pass that begins, compiled ones that draw random bits included."""
        return self.state.passes, self.state.random._version

    def random_state(self) -> Tensor:
        """``[seed, offset]`` of the random casts, int64."""
        return self.state.random.clone()

    def histories(self) -> dict[str, Tensor]:
        """The amaxes of earlier passes, by operand, of delayed scales."""
        return {name: history.clone() for name, history in self.state.histories.items()}

    def load_random_state(self, random: Tensor) -> None:
        """Continue the random casts from a saved ``random_state()``."""
        self.state.random.copy_(random)
        self.begin_step()

    def load_histories(self, histories: Mapping[str, Tensor]) -> None:
        """Continue delayed scales from saved ``histories()``.

        Raises:
            ValueError: they are of other operands or lengths.
        """
        theirs, ours = ({name: len(h) for name, h in group.items()} for group in (histories, self.state.histories))
        if theirs != ours:
            differing = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
            raise ValueError(
                f"amax histories differ in {', '.join(differing[:5])}: got {len(theirs)} of them, expected "
                f"{len(ours)}: they must come from the same recipe and model"
            )
        for name, history in self.state.histories.items():
            history.copy_(histories[name])
        self.begin_step()

    def _end_measurement(self, observer: GemmObserver) -> None:
        self._rows = make_rows(observer.flops)
        if observer.was_on:
            self._measured_notes = (_PARTS,) if has_compiled_parts(self.model) else ()
        else:
            self._measured_notes = (_COMPILED,)
        self.state.observer = None


def _new_state(model: nn.Module, recipe: Recipe, seed: int) -> ConversionState:
    device = device_of(model)
    dtype = DTYPES[recipe.compute_dtype]
    native = native_compute(device, dtype)
    if recipe.engine == "native":
        _refuse_missing_engine(recipe, device)
    return ConversionState(
        compute_dtype=dtype,
        device_type=device.type,
        residual_16bit=recipe.residual != "fp32" and dtype != torch.float32,
        native_compute=native and recipe.engine != "emulated",
        native_fp8=recipe.engine == "native" or (recipe.engine == "auto" and "fp8" in native_here(device)),
        random=new_random_state(seed),
    )


def _refuse_missing_engine(recipe: Recipe, device: torch.device) -> None:
    """An engine that was asked for by name is used or refused, never swapped."""
    dtype = DTYPES[recipe.compute_dtype]
    casts = [OperandCasts.of(rule.precision) for rule in recipe.all_rules if rule.precision is not None]
    texts = {cast.text for c in casts for cast in c.present}
    foreign = sorted(cast for cast in texts if not cast.startswith(("e4m3[tensor", "e5m2[tensor", "e4m3[row")))
    if foreign:
        raise ValueError(
            f"recipe {recipe.name}: engine 'native' got casts {', '.join(foreign)}: expected per-tensor or per-row "
            "e4m3 and e5m2, which torch._scaled_mm multiplies; use engine = 'auto' or 'emulated'"
        )
    if dtype != torch.float32 and not native_compute(device, dtype):
        native = ", ".join(native_here(device)) or "none below fp32"
        raise ValueError(
            f"recipe {recipe.name}: engine 'native' for {recipe.compute_dtype} on {device}: native here: {native}; "
            "use engine = 'auto' or 'emulated'"
        )


def _has_casts(recipe: Recipe) -> bool:
    return any(rule.precision is not None for rule in recipe.all_rules)
