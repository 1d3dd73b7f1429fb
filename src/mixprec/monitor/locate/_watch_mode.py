"""A dispatch mode that looks at every operator's result, and knows which module it belongs to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...nn import ROOT, ModuleStack, NodeOrigins, is_in_backward, uncompiled
from ._causes import Made
from ._values import facts_of, is_finite

#: Results of these are no results: their memory is written later.
_ALLOCATIONS = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "resize_", "set_"})
#: Of these, what was in the operand that they write to does not matter.
_OVERWRITING = frozenset({"copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_", "random_", "_foreach_copy_"})
#: Operators by whose names a tensor's recent past is told.
_LINEAGE = 6


@dataclass(frozen=True)
class Origin:
    """Where something ran: the module, and the operator."""

    site: str
    operation: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A result that is not finite although what it was made of is, or a NaN made of infinities.

    Attributes:
        site: path of the module.
        operand: name of the operand with the widest range; ``"output"`` where it had none.
        made: what was made of what.
    """

    site: str
    operand: str
    made: Made


class FiniteWatch(TorchDispatchMode):
    """Notes each operator that made what is not finite out of what is, in the order in which they ran.

    Infinities that are written as such (a mask of -inf, a constant) are none. What such a result does further on is
    followed by the memory that holds it, so that a NaN that a ``where`` has thrown away is not blamed for another's.

    Args:
        model: whose modules name the sites.

    Attributes:
        candidates: what was noted.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.candidates: list[Candidate] = []
        self._classes = {name or ROOT: type(m).__name__ for name, m in model.named_modules()}
        self._modules, self._origins = ModuleStack(model), NodeOrigins[Origin]()
        self._tainted: dict[int, int] = {}  # memory of a result that is not finite: whose doing
        self._lineage: dict[int, tuple[str, ...]] = {}
        self._loose: int | None = None  # a cast's doing, whose result no operator shows
        self._uncompiled: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> FiniteWatch:
        self._uncompiled = uncompiled()
        self._uncompiled.__enter__()
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self._modules.__exit__(*exc)
        self._uncompiled.__exit__(*exc)

    @property
    def path(self) -> str:
        """The innermost running module's path."""
        return self._modules.path

    def culprit_of(self, tensors: Iterable[Tensor]) -> Candidate | None:
        """The first candidate whose doing one of these tensors is; ``None`` where that is not known."""
        found = [self._tainted[_memory(t)] for t in tensors if _memory(t) in self._tainted and not is_finite(t)]
        return self.candidates[min(found)] if found else None

    def taint(self, tensor: Tensor, candidate: Candidate) -> None:
        """Note what was found by other means than an operator's result."""
        self.candidates.append(candidate)
        self._tainted[_memory(tensor)] = len(self.candidates) - 1

    def note_cast(self, candidate: Candidate) -> None:
        """Note a cast that left its format's range; it writes to memory that no operator shows."""
        self.candidates.append(candidate)
        self._loose = len(self.candidates) - 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func._overloadpacket.__name__
        self._origins.note(lambda: Origin(self.path, name))
        written = _written(func, args, kwargs)
        # What an operator writes to is looked at before: afterwards it is the result.
        bad_before = {_memory(t) for t in written if not is_finite(t)} if name not in _OVERWRITING else set[int]()
        out = func(*args, **kwargs)
        if name not in _ALLOCATIONS:
            self._look(func, name, args, kwargs, out, bad_before)
        return out

    def _look(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, bad_before: set[int]
    ) -> None:
        results = [t for t in pytree.tree_leaves(out) if isinstance(t, Tensor)]
        bad = [t for t in results if not is_finite(t)]
        written = {_memory(t) for t in _written(func, args, kwargs)}
        for t in results:
            if _memory(t) not in written and all(t is not b for b in bad):
                self._tainted.pop(_memory(t), None)
        operands = _operands(func, args, kwargs)
        self._remember(name, results, operands)
        if bad:
            self._judge(name, args, kwargs, bad[0], operands, written, bad_before)
            for t in bad[1:]:
                if _memory(bad[0]) in self._tainted:
                    self._tainted[_memory(t)] = self._tainted[_memory(bad[0])]

    def _judge(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Tensor,
        operands: list[tuple[str, Tensor]],
        written: set[int],
        bad_before: set[int],
    ) -> None:
        read = [(n, t) for n, t in operands if _memory(t) not in written]
        facts = [(n, facts_of(t)) for n, t in read]
        made = facts_of(result)
        inherited = [self._tainted[_memory(t)] for _, t in operands if _memory(t) in self._tainted and not is_finite(t)]
        had_nan = any(f.nans for _, f in facts)
        had_infinite = any(not f.is_finite for _, f in facts) or bool(bad_before) or _has_infinite_number(args, kwargs)
        if inherited:
            self._tainted[_memory(result)] = min(inherited)
        elif self._loose is not None and had_infinite:
            self._tainted[_memory(result)] = self._loose
        elif not had_infinite or (made.nans and not had_nan and not bad_before):
            self._add(name, result, made, facts)

    def _add(self, name: str, result: Tensor, made: Any, facts: list[tuple[str, Any]]) -> None:
        origin, is_backward = self._where(name)
        lineage = frozenset(self._lineage.get(_memory(result), ()))
        self.taint(
            result,
            Candidate(
                site=origin.site,
                operand=_role(name, facts, is_backward),
                made=Made(
                    operation=name,
                    direction="backward" if is_backward else "forward",
                    origin=origin.operation if is_backward else "",
                    result=made,
                    operands=tuple(facts),
                    lineage=lineage,
                    module=self._classes.get(origin.site, ""),
                ),
            ),
        )

    def _where(self, name: str) -> tuple[Origin, bool]:
        is_backward = is_in_backward()
        if is_backward and not torch.is_grad_enabled():  # what a backward pass recomputes runs with gradients
            return self._origins.of_running_node() or Origin(ROOT, ""), True
        return Origin(self.path, name), False

    def _remember(self, name: str, results: list[Tensor], operands: list[tuple[str, Tensor]]) -> None:
        past = tuple(n for _, t in operands for n in self._lineage.get(_memory(t), ())[-_LINEAGE:])
        for t in results:
            self._lineage[_memory(t)] = (*dict.fromkeys(past), name)[-_LINEAGE:]


def _memory(tensor: Tensor) -> int:
    storage = tensor.untyped_storage() if tensor.layout == torch.strided else None
    return id(tensor) if storage is None else storage._cdata  # pyright: ignore[reportPrivateUsage]  # no public identity


def _operands(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Tensor]]:
    """The floating tensors among the arguments, by the schema's names."""
    names = [argument.name for argument in func._schema.arguments]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    found: list[tuple[str, Tensor]] = []
    for name, value in given:
        if name == "out":
            continue
        items = list(value) if isinstance(value, list | tuple) else [value]
        tensors = [t for t in items if isinstance(t, Tensor) and (t.is_floating_point() or t.is_complex())]
        found += [(name if len(tensors) == 1 else f"{name}[{i}]", t) for i, t in enumerate(tensors)]
    return found


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Arguments that an operator writes to."""
    if not func._schema.is_mutable:
        return []
    named = dict(zip([a.name for a in func._schema.arguments], args, strict=False)) | kwargs
    given = [named.get(a.name) for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [t for t in pytree.tree_leaves(given) if isinstance(t, Tensor)]


def _has_infinite_number(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a number among the arguments is not finite: what comes of it was asked for."""
    numbers = [v for v in pytree.tree_leaves((args, kwargs)) if isinstance(v, float)]
    return any(v != v or v in (float("inf"), float("-inf")) for v in numbers)


def _role(name: str, facts: list[tuple[str, Any]], is_backward: bool) -> str:
    """Which operand to name: of a gradient the incoming one, else the one with the widest range."""
    if not facts or (name == "_to_copy" and not is_backward):
        return "output"
    if is_backward:
        return "grad_output"
    widest = max(facts, key=lambda item: item[1].amax)[0]
    return {"self": "input", "mat1": "input", "mat2": "weight"}.get(widest, widest)
