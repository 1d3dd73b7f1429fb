"""A session's training step, run for what it holds in memory: converted, kept, differentiated and updated as it says.

What a session does beside it (checks, records, a loss scale) holds next to nothing, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...monitor import SavedTensors, UpdateWatch, saved_tensors, tensors_in
from ...nn import convert, resolve
from ...optim import HALF_DTYPES, keep_weights, narrow_parameters
from ...specs import Recipe
from ._copied_buffers import CopiedBuffers
from ._live_bytes import planned_storages
from ._sandbox import Loss, Sandbox
from ._step_trace import LOSS
from ._take_inventory import MakeOptimizer, check_loss

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_Storages = Mapping[tuple[str, int], int]


@dataclass(frozen=True, kw_only=True)
class SavedStep:
    """What autograd held when the backward pass began, by site, and the gradients when it ended."""

    saved: dict[str, int]
    opaque: frozenset[str]
    gradients: int


class Rehearsal:
    """A model in a sandbox, prepared under a recipe as a session prepares it.

    Args:
        sandbox: its model is converted, and its weights narrowed.
        recipe: ``auto`` is resolved for the model's device.
        optimizer: makes the optimizer.
    """

    def __init__(self, sandbox: Sandbox, recipe: Recipe, optimizer: MakeOptimizer) -> None:
        model = self.model = sandbox.model
        self.recipe = recipe = resolve(recipe, model)
        self._batch = sandbox.batch
        made = optimizer(model.parameters())
        narrowed = None if recipe.weights == "master" else narrow_parameters(model, _DTYPES[recipe.compute_dtype])
        self._conversion = convert(model, recipe)
        self._kept = keep_weights(made, recipe.weights, moments=recipe.moments)
        if narrowed is not None:
            if not sandbox.is_fake:
                narrowed.start(self._kept)
            narrowed.forget()
        self._is_fake = sandbox.is_fake
        self._copied = CopiedBuffers(model)
        halves = {name: p for name, p in model.named_parameters() if p.dtype in HALF_DTYPES}
        self._watch = UpdateWatch(halves if recipe.weights == "true" else {})
        self._conversion.begin_step()
        self._held: list[Tensor] = []
        model.register_forward_hook(self._keep_gradients)

    def step(self, loss: Loss) -> SavedStep:
        """One training step.

        Args:
            loss: of model and batch.
        """
        self._conversion.measure_next_step()
        self._copied.take()
        value = loss(self.model, self._batch)
        check_loss(value)
        module_of = self._conversion.module_of_nodes()
        graph = saved_tensors(value, planned_storages)
        saved = _by_site(graph, self._resident(), module_of)
        self._kept.begin_backward()
        with self._conversion.region():
            value.backward()
        gradients = sum(planned_storages(self._gradients()).values())
        del value
        self._watch.before_step(())
        if self._is_fake:
            self._kept.make_state()
        else:
            self._kept.apply(1.0)
        self._conversion.commit_step()
        self._kept.clear_gradients()
        self._copied.forget()
        self._held.clear()
        return SavedStep(saved=saved, opaque=graph.opaque, gradients=gradients)

    def kinds(self) -> dict[str, int]:
        """Bytes that are there between steps, by kind, each storage under the first that has it."""
        seen: set[tuple[str, int]] = set()
        counted: dict[str, int] = {}
        for name, storages in self._kinds().items():
            counted[name] = sum(n for key, n in storages.items() if key not in seen)
            seen |= storages.keys()
        return counted

    def _keep_gradients(self, module: nn.Module, args: object, output: object) -> None:
        """A session keeps the gradients of the model's outputs until the step ends, to find a fault from."""
        for t in tensors_in(output):
            if t.requires_grad:
                t.register_hook(self._held.append)

    def _resident(self) -> set[tuple[str, int]]:
        return {key for storages in self._kinds().values() for key in storages}

    def _kinds(self) -> dict[str, _Storages]:
        optimizer = self._kept.optimizer
        beside = {
            **self._conversion.kept_tensors(),
            "copies of buffers": self._copied.tensors,
            "samples of weights": self._watch.tensors,
        }
        return {
            "weights": planned_storages(self.model.parameters()),
            "buffers": planned_storages(self.model.buffers()),
            "masters": planned_storages(self._kept.extras()),
            "counters": planned_storages([*_counters(optimizer.state), *tensors_in(optimizer.param_groups)]),
            "moments": planned_storages(optimizer.state),
            **{name: planned_storages(tensors) for name, tensors in beside.items()},
        }

    def _gradients(self) -> list[Tensor]:
        held = [p for group in self._kept.optimizer.param_groups for p in group["params"]]
        return [p.grad for p in (*self.model.parameters(), *held) if p.grad is not None]


def _counters(state: Mapping[Any, Any]) -> list[Tensor]:
    """Single numbers of an optimizer's state: step counters and the like of each parameter."""
    return [
        value
        for param, values in state.items()
        for name, value in (values.items() if isinstance(values, Mapping) else ())  # pyright: ignore[reportUnknownVariableType]
        if isinstance(value, Tensor) and (name == "step" or (value.dim() == 0 and not _is_number(param)))
    ]


def _is_number(param: object) -> bool:
    return isinstance(param, Tensor) and param.dim() == 0


def _by_site(
    graph: SavedTensors, resident: set[tuple[str, int]], module_of: Callable[[int], str | None] | None
) -> dict[str, int]:
    """Bytes of a graph's storages by the module that saved each first, the most first."""
    sums: dict[str, int] = {}
    for key, storage in graph.storages.items():
        if key not in resident:
            module = None if module_of is None else module_of(storage.number)
            site = LOSS if module is None else module
            sums[site] = sums.get(site, 0) + storage.bytes
    return dict(sorted(sums.items(), key=lambda item: -item[1]))
