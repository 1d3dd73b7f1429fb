"""The mode that sees every operation of a step, forward and backward, and hands it to the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...nn import ROOT, ModuleStack, is_in_backward, uncompiled
from ._call import Call, floating
from ._findings import Findings
from ._place import LOSS, Place, calling_line, shown
from ._provenance import facts_of_result
from ._setting import Setting
from ._values import EMPTY, NARROW, Facts, Values, is_measurable
from .detectors import Detector

#: Operations that read no values and make none.
_SILENT = frozenset({"detach", "size", "stride", "is_same_size", "_local_scalar_dense"})


class StepWatcher(TorchDispatchMode):
    """Sees every operation while it is on.

    Args:
        setting: what the check is about.
        detectors: that are asked about each operation, in order; one that finds something ends the asking.
        findings: where they go.
    """

    def __init__(self, setting: Setting, detectors: Sequence[Detector], findings: Findings) -> None:
        super().__init__()
        self._setting, self._detectors, self._findings = setting, detectors, findings
        self._modules = ModuleStack(setting.model)
        self._values = Values()
        self._places: dict[int, Place] = {}  # of autograd nodes, by their sequence numbers
        self._written: dict[int, Tensor] = {}  # copies of what an operation was about to write to
        #: Tensors that modules hold as plain attributes, by path and name.
        self.attributes = {
            f"{path}.{key}".lstrip("."): value
            for path, module in setting.model.named_modules()
            for key, value in module.__dict__.items()
            if is_measurable(value) and not value.requires_grad
        }
        # What is no copy: parameters, and these.
        kept = (p.detach() for p in setting.names if p.layout == torch.strided)
        self._kept = {t.untyped_storage().data_ptr(): t for t in (*self.attributes.values(), *kept)}
        self._compute = setting.compute
        self._uncompiled: AbstractContextManager[Any] = nullcontext()
        #: Largest magnitude of an fp16 gradient in the backward pass, and whether one overflowed.
        self.fp16_amax, self.fp16_overflows, self.has_fp16 = 0.0, False, False
        self.operations = 0
        #: Where a NaN or inf went in that no watched operation had made.
        self.first_nonfinite: Place | None = None

    @property
    def compute(self) -> torch.dtype | None:
        """The 16-bit dtype of the recipe, or that was seen."""
        return self._compute

    def __enter__(self) -> StepWatcher:
        self._uncompiled = uncompiled()
        self._uncompiled.__enter__()
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._modules.__exit__(*exc)
        self._uncompiled.__exit__(*exc)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        packet = func._overloadpacket
        name: str = packet.__name__
        if name in _SILENT:
            return func(*args, **kwargs)
        if name in EMPTY:
            made = func(*args, **kwargs)
            self._values.note(made, Facts(dtype=made.dtype, maker=name))
            return made
        self.operations += 1
        place = self._place(name, args)
        read = self._values.of if func._schema.is_mutable else self._values.read
        inputs = tuple((t, read(t)) for t in floating((*args, *kwargs.values())))
        if self.first_nonfinite is None and any(not f.maker and (f.has_nan or f.has_inf) for _, f in inputs):
            self.first_nonfinite = place
        if func._schema.is_mutable:
            self._keep(args, kwargs)
        out = func(*args, **kwargs)
        outputs = tuple(floating(out if isinstance(out, (list, tuple)) else (out,)))
        call = Call(
            name=name,
            library=func.namespace,
            args=args,
            kwargs=kwargs,
            inputs=inputs,
            outputs=(),
            place=place,
            needs_grad=place.backward or (torch.is_grad_enabled() and any(t.requires_grad for t, _ in inputs)),
            node=torch._C._current_autograd_node() if place.backward else None,  # pyright: ignore[reportPrivateUsage]
            compute=self._compute,
            setting=self._setting,
        )
        known = tuple((t, facts_of_result(call, t)) for t in outputs)
        for t, facts in known:
            self._values.note(t, facts)
        self._ask(replace(call, outputs=known))
        self._note_fp16(known, place)
        return out

    def give_back(self) -> None:
        """Undo what operations have written into parameters and plain attributes."""
        with torch.no_grad():
            for key, copy in self._written.items():
                self._kept[key].copy_(copy)
        self._written.clear()

    def path_of(self, module: torch.nn.Module) -> str | None:
        """A module's path; ``None``: it is not the model's."""
        return self._modules.path_of(module)

    def _ask(self, call: Call) -> None:
        for detector in self._detectors:
            if detector.operations is None or call.name in detector.operations:
                found = [*detector.see(call)]
                if found:
                    self._findings.add(found)
                    return

    def _place(self, name: str, args: tuple[Any, ...]) -> Place:
        number = torch.autograd._get_sequence_nr() - 1  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
        if is_in_backward() and not torch.is_grad_enabled():
            node = torch._C._current_autograd_node()  # pyright: ignore[reportPrivateUsage]
            own = getattr(node, "_sequence_nr", None)
            origin = None if own is None else self._places.get(own())
            return Place(ROOT, name, backward=True) if origin is None else replace(origin, backward=True)
        path = LOSS if self._modules.running is None else self._modules.path
        line, by = calling_line()
        place = Place(path, shown(name), line, by=by)
        if number not in self._places or (torch.is_grad_enabled() and any(t.requires_grad for t in floating(args))):
            self._places[number] = place
        return place

    def _keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A copy of each parameter or attribute that may be written to; a check leaves them as they were."""
        for t in floating((*args, *kwargs.values())):
            key = t.untyped_storage().data_ptr()
            if key in self._kept and key not in self._written:
                self._written[key] = self._kept[key].detach().clone()

    def _note_fp16(self, outputs: tuple[tuple[Tensor, Facts], ...], place: Place) -> None:
        for _, facts in outputs:
            if facts.dtype in NARROW and self._compute is None:
                self._compute = facts.dtype
            if facts.dtype == torch.float16:
                self.has_fp16 = True
                if place.backward:
                    self.fp16_amax = max(self.fp16_amax, facts.amax)
                    self.fp16_overflows = self.fp16_overflows or not facts.is_finite
