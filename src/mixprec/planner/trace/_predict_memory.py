"""What a training step under a recipe will hold in memory, without running it under that recipe."""

from __future__ import annotations

from typing import Any

from torch import nn

from ...specs import Recipe, load_recipe
from ._live_bytes import LiveBytes
from ._memory_forecast import MemoryForecast
from ._rehearsal import Rehearsal
from ._sandbox import Loss, Sandbox, samples_of, traced
from ._take_inventory import MakeOptimizer

_OPAQUE = "saved activations leave out what {} nodes of the graph keep, which torch does not show"
_WORKSPACES = "cast workspaces"
_NAMED = ("weights", "buffers", "masters", "counters", "moments")


def predict_memory(
    model: nn.Module, loss: Loss, batch: Any, recipe: Recipe | str, *, optimizer: MakeOptimizer, is_cpu: bool = True
) -> MemoryForecast:
    """Tell what a session would hold in memory: what ``Session.memory()`` measures, and a step's peak.

    Two steps under the recipe run on a copy of the model whose tensors have shapes and no values (torch's fake
    tensors), and the storages of the second one are counted as they come and go: nothing is computed and no memory is
    taken, so that models of any size and on the meta device do. A model that asks for values (``.item()``, routing by
    data) runs real steps on a copy instead, which a note says.

    What an operator's kernel allocates for itself and gives back before it returns is in the peak on a CPU only, as far
    as it is a copy of an operand.

    Args:
        model: any that converts; the model itself is not touched.
        loss: ``loss(model, batch)``, runs the forward pass and returns one number.
        batch: nested containers of tensors, as the loss takes it.
        recipe: a recipe, its name, or the path of its TOML file.
        optimizer: ``optimizer(parameters)``, makes a new one.
        is_cpu: whether the step is to run on a CPU; elsewhere there are no workspaces for emulated casts, and what
            kernels take for themselves is not known.

    Raises:
        ValueError: a recipe that does not fit the model, or a loss that is not one number with a graph.

    Example:
        >>> import torch
        >>> from functools import partial
        >>> model, x = nn.Linear(8, 4), torch.ones(16, 8)
        >>> sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
        >>> memory = predict_memory(model, lambda model, x: torch.tanh(model(x)).sum(), x, "fp32", optimizer=sgd)
        >>> memory.weights, memory.moments, memory.saved
        (144, 144, {'<model>': 512, '<loss>': 256})
    """
    wanted = recipe if isinstance(recipe, Recipe) else load_recipe(recipe)
    forecast, notes = traced(model, batch, lambda sandbox: _rehearse(sandbox, loss, wanted, optimizer, is_cpu))
    kinds, saved, peak, name, parameters = forecast
    opaque = (_OPAQUE.format(" and ".join(sorted(saved.opaque))),) if saved.opaque else ()
    return MemoryForecast(
        recipe=name,
        parameters=parameters,
        **{kind: kinds[kind] for kind in _NAMED},
        gradients=saved.gradients,
        saved=saved.saved,
        other={kind: n for kind, n in kinds.items() if kind not in _NAMED and n},
        peak=peak,
        samples=samples_of(batch),
        notes=(*notes, *opaque),
    )


def _rehearse(sandbox: Sandbox, loss: Loss, recipe: Recipe, optimizer: MakeOptimizer, is_cpu: bool) -> tuple[Any, ...]:
    rehearsal = Rehearsal(sandbox, recipe, optimizer)
    with LiveBytes(is_cpu=is_cpu) as live:
        rehearsal.step(loss)  # makes state and workspaces
        before, live.most = live.now, live.now
        kinds = {kind: n for kind, n in rehearsal.kinds().items() if is_cpu or kind != _WORKSPACES}
        saved = rehearsal.step(loss)
        peak = sum(kinds.values()) + live.most - before
    parameters = sum(p.numel() for p in rehearsal.model.parameters())
    return kinds, saved, peak, rehearsal.recipe.name, parameters
