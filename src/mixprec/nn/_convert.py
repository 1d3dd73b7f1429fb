"""Conversion of a model in place: what changes, what is told, and the way back."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..specs import Recipe, Rule, load_recipe
from ._audit import Audit, AuditRow, make_rows
from ._compute_mode import ComputeMode
from ._device import device_of, native_compute, native_here
from ._matching import notes_on_subclasses, rules_by_module
from ._modules import CONVERTED
from ._observer import GemmObserver, observing
from ._refusals import refuse_unconvertible
from ._region import ATTRIBUTE, base_class, region_class
from ._resolve import emulation_note, kept_dtypes, notes_about, resolve
from ._site import SITE, STREAMS_PER_SITE, ConversionState, OperandCasts, Site, new_random_state

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_HANDLE = "_mixprec_conversion"
_COMPILED = (
    "the measured step was compiled by torch.compile, whose products cannot be counted: run one step of the model "
    "before compiling it; its numbers are the eager ones bit for bit under aot_eager, and to rounding under Inductor"
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
        ValueError: a model that is compiled, scripted, sharded or converted already; a rule without a layer.

    Warns:
        UserWarning: the model is on an accelerator that only emulates the recipe.
    """
    refuse_unconvertible(model)
    recipe = resolve(recipe if isinstance(recipe, Recipe) else load_recipe(recipe), model)
    rules = rules_by_module(model, recipe)
    state = _new_state(model, recipe, seed)
    for index, (name, module) in enumerate(_convertible(model)):
        rule = rules.get(name)
        casts = OperandCasts.of(None if rule is None else rule.precision)
        if casts == OperandCasts() and not state.is_16bit:
            continue
        module.__dict__[SITE] = Site(name=name, casts=casts, stream=index * STREAMS_PER_SITE, state=state)
        module.__class__ = CONVERTED[type(module)]
        if casts.stochastic:
            state.streams = (index + 1) * STREAMS_PER_SITE
    for module in model.modules():
        if module is model or _is_users(module):
            module.__dict__[ATTRIBUTE] = state
            module.__class__ = region_class(type(module))
    conversion = Conversion(model, recipe, state, _left_plain(recipe, rules))
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

    def __init__(self, model: nn.Module, recipe: Recipe, state: ConversionState, plain: frozenset[str] | None) -> None:
        self.model, self.recipe, self.state = model, recipe, state
        self.notes = notes_about(model, recipe, state) + notes_on_subclasses(model, recipe)
        self._plain = plain
        self._step_start = state.random.clone()
        self._rows: tuple[AuditRow, ...] = ()
        self._was_compiled = False

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
        self.model.__dict__.pop(_HANDLE, None)

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
        self.state.workspace.release()
        if observer is not None:
            self._end_measurement(observer)

    def measure_next_step(self) -> None:
        """Count the GEMMs of the next forward pass and of the next backward pass inside ``region()``."""
        self.state.observer = GemmObserver(self.model, self._plain)

    @contextmanager
    def measured(self) -> Generator[None]:
        """Count all GEMMs of the forward and backward pass inside, for a loop that is not a session's."""
        observer = self.state.observer = GemmObserver(self.model, self._plain)
        try:
            with observer:
                yield
        finally:
            self._end_measurement(observer)

    def audit(self) -> Audit:
        """Format and engine of every GEMM of the last measured step."""
        notes = (*self.notes, _COMPILED) if self._was_compiled else self.notes
        return Audit(recipe=self.recipe.name, rows=self._rows, kept=kept_dtypes(self.model), notes=notes)

    def begin_step(self) -> None:
        """Remember the random bits' position: a step that is discarded consumes none."""
        self._step_start = self.state.random.clone()

    def commit_step(self) -> None:
        """The step was applied: its random bits are used up."""
        self.begin_step()

    def discard_step(self) -> None:
        """The step was skipped: give its random bits back."""
        self.state.random.copy_(self._step_start)

    def random_state(self) -> Tensor:
        """``[seed, offset]`` of the stochastic casts, int64."""
        return self.state.random.clone()

    def load_random_state(self, random: Tensor) -> None:
        """Continue the stochastic casts from a saved ``random_state()``."""
        self.state.random.copy_(random)
        self.begin_step()

    def _end_measurement(self, observer: GemmObserver) -> None:
        self._rows = make_rows(observer.flops)
        self._was_compiled = not observer.was_on
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
    casts = [OperandCasts.of(rule.precision) for rule in recipe.rules if rule.precision is not None]
    texts = {cast.text for c in casts for cast in c.present}
    foreign = sorted(cast for cast in texts if not cast.startswith(("e4m3[tensor]", "e5m2[tensor]", "e4m3[row]")))
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


def _left_plain(recipe: Recipe, rules: Mapping[str, Rule]) -> frozenset[str] | None:
    """The layers that the recipe leaves to torch in fp32; ``None`` where it gives no layer a cast."""
    if recipe.compute_dtype != "fp32":
        return frozenset()
    if all(rule.precision is None for rule in recipe.rules):
        return None
    return frozenset(name for name, rule in rules.items() if rule.precision is None)


def _convertible(model: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, module) for name, module in model.named_modules() if type(module) in CONVERTED]


def _is_users(module: nn.Module) -> bool:
    """Whether the module's class is not torch's own: it may call functions that the compute dtype has rules for."""
    return not type(module).__module__.startswith("torch.nn.") and SITE not in module.__dict__
