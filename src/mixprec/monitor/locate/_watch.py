"""A dispatch mode that sees every operation of a pass and notes where bad values are born."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from ...nn import Conversion, uncompiled
from ._backpropagated import Backpropagated
from ._evidence import AT_END, FLUSHED, REDUCTIONS_OF_MASKS, SPREAD, Evidence, Operand, has_masked_row
from ._known import KnownTensors
from ._lineage import Birth, Lineage
from ._operations import Operation, is_write, operation_of, writes_infinity
from ._range import is_finite, is_measured, plain, range_of
from ._roles import Roles
from ._sites import Place, Sites

_VARIANCES = ("var", "std", "var_mean", "std_mean", "linalg_vector_norm")
#: Operations through which a zero stays the zero that it was.
_POINTWISE = (
    *("mul", "mul_", "add", "add_", "sub", "neg", "abs", "relu", "clamp", "clamp_min", "sqrt", "rsqrt", "square"),
    *("pow", "clone", "copy_", "_to_copy", "mean", "select_copy", "index_select", "sum", "cat"),
)
_PRODUCTS = ("mul", "mul_", "div", "div_")
_PROBABILITY = "binary_cross_entropy_backward"
#: Births whose operands are looked at closely; a pass that has gone bad makes thousands.
_CLOSELY = 256


class TalkError(RuntimeError):
    """A replay on one rank would have waited for the others."""


class FaultWatch(TorchDispatchMode):
    """Sees a forward and a backward pass.

    An operation bears bad values where its result has an infinity or a NaN and its operands have none, or has a NaN
    and its operands have only infinities. What the program writes itself (``masked_fill(-inf)``) is told apart.

    Args:
        model: the root.
        conversion: of it, or ``None``.
        known: what is there before.
        is_whole: whether nothing but the model runs inside.
        may_talk: whether the other ranks of a process group run the same, so that operations may wait for them.

    Attributes:
        lineage: what has been seen.
        has_talked: whether an operation has waited for other ranks.
        backpropagated: what backward passes began at.
        roles: what the conversion's own products have said of their operands.
    """

    def __init__(
        self,
        model: nn.Module,
        conversion: Conversion | None,
        known: KnownTensors,
        *,
        is_whole: bool,
        may_talk: bool = True,
    ) -> None:
        super().__init__()
        self.has_talked, self._may_talk = False, may_talk
        self.lineage, self.known, self.backpropagated = Lineage(), known, Backpropagated()
        self.roles = Roles(lambda x: self._origins(x, x))
        self._sites = Sites(model, is_whole=is_whole)
        self._conversion = conversion
        self._operations: dict[Any, Operation] = {}
        self._around: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> FaultWatch:
        with ExitStack() as stack:
            stack.enter_context(uncompiled())
            stack.enter_context(self._sites)
            if self._conversion is not None:
                stack.enter_context(self._conversion.watched_by(self.roles))
            super().__enter__()
            self._around = stack.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._around.__exit__(*exc)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self._sites.note(args)
        operation = self._operations.get(func)
        if operation is None:
            operation = self._operations[func] = operation_of(func)
        if operation.talks:
            self._talk(operation)
            return func(*args, **kwargs)  # its results are there only when somebody has waited for it
        self.backpropagated.note(operation.name, [x for _, x in operation.tensors(args, kwargs)])
        if operation.is_silent:
            return func(*args, **kwargs)
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]  # no mode is to see what is asked here
            operands = [(n, x.clone() if n in operation.changed else x, x) for n, x in _read(operation, args, kwargs)]
            out = func(*args, **kwargs)
            self._look(operation, (args, kwargs), operands, out)
        return out

    def _talk(self, operation: Operation) -> None:
        self.has_talked = True
        if not self._may_talk:
            raise TalkError(
                f"the model talks to other ranks ({operation.name}), which do not replay: call session.locate(...) on "
                "all of them"
            )

    def _look(
        self,
        operation: Operation,
        called: tuple[tuple[Any, ...], dict[str, Any]],
        operands: list[tuple[str, Tensor, Tensor]],
        out: Any,
    ) -> None:
        """Judge what an operation has made. Operands: name, values before it, the tensor itself."""
        results = [x for x in pytree.tree_leaves(out) if _can_be_seen(x)]
        self._pass_notes_on(operation, operands, results)
        bad = [x for x in results if not is_finite(x)]
        if not bad:
            return
        numbers, title = operation.numbers(*called), operation.title(*called)
        sick = [(name, x, itself) for name, x, itself in operands if not is_finite(x)]
        parents = frozenset(birth for _, x, itself in sick for birth in self._origins(x, itself, title))
        is_written = writes_infinity(numbers) and not sick
        births = parents
        if is_written or _is_born(bad, [x for _, x, _ in sick]) or self._is_new(operation, bad, sick, parents):
            place = self._sites.now()
            evidence = self._evidence(title, place, operands, bad, numbers)
            births = self._bear("constant" if is_written else "operation", place, evidence, parents, operation)
        for x in bad:
            self.lineage.put(x, births)

    def _is_new(
        self,
        operation: Operation,
        bad: list[Tensor],
        sick: list[tuple[str, Tensor, Tensor]],
        parents: frozenset[Birth],
    ) -> bool:
        """Whether an infinity that was meant (a mask) becomes one that was not."""
        if not all(birth.is_quiet for birth in parents) or is_write(operation):
            return False
        if operation.name in REDUCTIONS_OF_MASKS:
            return any(has_masked_row(x, range_of(x)) for _, x, _ in sick)
        if operation.name in _PRODUCTS and self._sites.now().direction == "backward":
            return True
        return _has_plus_inf(bad) and not _has_plus_inf([x for _, x, _ in sick])

    def _bear(
        self, kind: Any, place: Place, evidence: Evidence, parents: frozenset[Birth], operation: Operation
    ) -> frozenset[Birth]:
        # A mask is -inf and written; in the backward pass nothing else of the kind is meant.
        is_meant = place.direction == "forward" or (evidence.result.only_minus_inf and is_write(operation))
        birth = Birth(
            index=len(self.lineage.all),
            kind=kind,
            site=place.site,
            direction=place.direction,
            evidence=evidence,
            parents=parents,
            is_meant=is_meant,
        )
        return self.lineage.bear(birth)

    def _origins(self, x: Tensor, itself: Tensor, reader: str = "") -> frozenset[Birth]:
        """The births of a bad operand; one that was there before is a birth of its own."""
        births = self.lineage.of(itself)
        if births:
            return births
        known = self.known.of(itself)
        place = self._sites.now()
        if known is None and self.roles.births_at(place.site):
            return self.roles.births_at(place.site)
        unknown = "constant" if x.numel() == 1 else ""
        site, name = (place.site, unknown) if known is None else (known.site, f"{known.kind} {known.name}")
        index, values = len(self.lineage.all), range_of(x)
        birth = Birth(index, "source", site, place.direction, name=name, values=values, reader=reader)
        births = self.lineage.bear(birth)
        self.lineage.put(itself, births)
        return births

    def _evidence(
        self,
        title: str,
        place: Place,
        operands: list[tuple[str, Tensor, Tensor]],
        bad: list[Tensor],
        numbers: Mapping[str, float],
    ) -> Evidence:
        closely = len(self.lineage.all) < _CLOSELY
        return Evidence(
            name=title,
            direction=place.direction,
            node=place.node,
            site=place.site,
            is_in_norm=_normalises(place.module),
            operands=tuple(self._operand(*operand) for operand in operands) if closely else (),
            result=range_of(bad[0]),
            numbers=numbers,
            roles=self.roles.at(place.site),
        )

    def _operand(self, name: str, x: Tensor, itself: Tensor) -> Operand:
        values, known = range_of(x), self.known.of(itself)
        return Operand(
            name=name,
            values=values,
            tags=self.lineage.tags(itself),
            parameter=known.name if known is not None and known.kind == "parameter" else "",
            is_input=known is not None and known.kind == "input",
            has_masked_row=has_masked_row(x, values),
        )

    def _pass_notes_on(
        self, operation: Operation, operands: list[tuple[str, Tensor, Tensor]], results: list[Tensor]
    ) -> None:
        """Note results that a cast has flushed to zero, or that measure a spread; results inherit such notes."""
        tags = frozenset[str]()
        if self.lineage.has_tags and operation.name in _POINTWISE:
            tags = tags.union(*(self.lineage.tags(itself) for _, _, itself in operands))
        if operation.name in _VARIANCES:
            tags |= {SPREAD}
        if operation.name == _PROBABILITY and any(n == "self" and _is_at_end(x) for n, x, _ in operands):
            tags |= {AT_END}
        if operands and _narrows(operation, operands[0][1], results) and _flushes(operands[0][1], results[0]):
            tags |= {FLUSHED}
        for x in results if tags else ():
            self.lineage.tag(x, tags)


def _read(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Tensor]]:
    return [(name, x) for name, x in operation.tensors(args, kwargs) if _can_be_seen(x)]


def _can_be_seen(x: object) -> bool:
    return is_measured(x) and not is_traceable_wrapper_subclass(x)


def _is_born(bad: list[Tensor], sick: list[Tensor]) -> bool:
    """Whether bad values were not there before: of finite operands, or a NaN of infinities."""
    return not sick or (_has_nan(bad) and not _has_nan(sick))


def _has_plus_inf(tensors: list[Tensor]) -> bool:
    return any(bool((plain(x) == torch.inf).any()) for x in tensors)


def _has_nan(tensors: list[Tensor]) -> bool:
    return any(bool(x.isnan().any()) for x in tensors)


def _normalises(module: nn.Module | None) -> bool:
    if module is None:
        return False
    return "norm" in type(module).__name__.lower() or any(hasattr(module, n) for n in ("eps", "variance_epsilon"))


def _narrows(operation: Operation, x: Tensor, results: list[Tensor]) -> bool:
    if not results or results[0].shape != x.shape:
        return False
    if operation.name in ("_to_copy", "copy_"):
        return results[0].dtype.itemsize < x.dtype.itemsize
    return operation.name.startswith("mixprec::")


def _is_at_end(x: Tensor) -> bool:
    return bool(((x == 0) | (x == 1)).any())


def _flushes(x: Tensor, result: Tensor) -> bool:
    return bool(((x != 0) & (result == 0)).any())
