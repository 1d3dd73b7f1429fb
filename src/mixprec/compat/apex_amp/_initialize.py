"""``initialize``: from models and optimizers of fp32 to those of a level."""

from __future__ import annotations

from typing import Any, Unpack

from torch import nn
from torch.optim import Optimizer

from ...distributed import ranks_of
from ...optim import keep_weights
from ._buffers import Buffers
from ._full_state import FullState
from ._keeping import AsTheyAre, Masters
from ._losses import Amp, Loss
from ._models import PreparedModel, check_model
from ._optimizer_class import prepared_class
from ._options import Options, Properties, count_of, loss_scale_of, properties_of
from ._prepared import ATTRIBUTE, Prepared


def initialize(
    models: Any, optimizers: Any = None, enabled: bool = True, opt_level: str = "O1", **options: Unpack[Options]
) -> Any:
    """Prepare models and optimizers for mixed precision, as ``apex.amp.initialize`` did.

    - ``O0``: fp32.
    - ``O1``: the recipe ``fp16``: functions take fp16 operands where that is safe, weights stay fp32; dynamic scale.
    - ``O2``: an fp16 model but for its batch norms, fp32 masters in the optimizers' groups, inputs cast to fp16,
      outputs fp32, a ``state_dict`` of fp32 (the masters' own bits); dynamic scale.
    - ``O3``: everything fp16, without masters; scale 1.

    Where the device has no fp16 products they are emulated exactly. Nothing is global: what a level keeps lives with
    the optimizers, so that several calls in one process are independent.

    Args:
        models: a module, or a list of them: fp32, on their device, before any parallel wrapper.
        optimizers: an optimizer, a list of them, or ``None`` for inference.
        enabled: ``False``: nothing is changed, and ``scale_loss`` gives the loss itself.
        opt_level: ``"O0"`` to ``"O3"``.
        **options: what is to be otherwise than the level says; see ``Options``.

    Returns:
        The same objects, in the form in which they were given: ``model``, or ``model, optimizer``.

    Raises:
        TypeError: models, optimizers or options of another kind.
        ValueError: a model that is wrapped, converted or of 16 bits; options that do not go with the level;
            an optimizer that shares no parameter with the models, or whose ``eps`` is 0 in the fp16 that it is to
            compute in.
        RuntimeError: an optimizer that has been through ``initialize`` before.

    Source: https://nvidia.github.io/apex/amp.html.

    Example:
        >>> import torch
        >>> model = nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> model, optimizer = initialize(model, optimizer, opt_level="O2", loss_scale=128.0)
        >>> model.weight.dtype, optimizer.param_groups[0]["params"][0].dtype
        (torch.float16, torch.float32)
    """
    given = models if isinstance(models, list) else [models]
    steppers = [] if optimizers is None else optimizers if isinstance(optimizers, list) else [optimizers]
    for optimizer in steppers:
        _check_optimizer(optimizer)
    if enabled:
        properties = properties_of(opt_level, options)
        rule, count = loss_scale_of(properties, options), count_of(options)
        is_told = options.get("verbosity", 1) > 0
        ranks = options.get("process_group", "default")
        ranks_of(ranks)  # refuses what is no group
        amp = Amp(properties, [Loss(number, rule, is_told) for number in range(count)], ranks)
        checked = [check_model(m) for m in given]
        for optimizer in steppers:
            _check_shared(optimizer, checked)
        _prepare(checked, steppers, amp, options)
    else:
        amp = Amp(None, [])
        for optimizer in steppers:
            vars(optimizer)[ATTRIBUTE] = Prepared(optimizer, amp, AsTheyAre(optimizer))
    return models if optimizers is None else (models, optimizers)


def _prepare(models: list[nn.Module], optimizers: list[Optimizer], amp: Amp, options: Options) -> None:
    properties = amp.properties
    if properties is None:
        return
    done: list[PreparedModel] = []
    try:
        for model in models:
            done.append(PreparedModel(model, properties, options.get("cast_model_outputs")))
        keepings = [_keep(optimizer, properties, done) for optimizer in optimizers]
    except BaseException:
        for one in done:
            one.undo()
        raise
    for one in done:
        one.settle()
    if properties.is_narrow and properties.opt_level == "O2":
        full = FullState(keepings)
        for model in models:
            full.watch(model)
    amp.buffers = Buffers(models, [p for keeping in keepings for p in keeping.parameters()])
    for optimizer, keeping in zip(optimizers, keepings, strict=True):
        vars(optimizer)[ATTRIBUTE] = Prepared(optimizer, amp, keeping)
        optimizer.__class__ = prepared_class(type(optimizer))


def _keep(optimizer: Optimizer, properties: Properties, models: list[PreparedModel]) -> AsTheyAre:
    if not (properties.is_narrow and properties.master_weights):
        keeping = AsTheyAre(optimizer)
        for group in optimizer.param_groups:
            keeping.check(group)
        return keeping
    kept = keep_weights(optimizer, "master")
    for model in models:
        if model.narrowed is not None:
            model.narrowed.start(kept)
    return Masters(kept)


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"initialize: got a {type(optimizer).__name__} as an optimizer, expected a torch.optim.Optimizer or a "
            "list of them"
        )
    if ATTRIBUTE in vars(optimizer):
        raise RuntimeError(
            f"initialize: this {type(optimizer).__name__} has been through initialize before: expected a new one; all "
            "optimizers of a model belong into one call"
        )


def _check_shared(optimizer: Optimizer, models: list[nn.Module]) -> None:
    own = {p for model in models for p in model.parameters()}
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise ValueError(
            f"initialize: this {type(optimizer).__name__} holds no parameter of the models, so that it would train "
            "nothing of them: expected the optimizer of these models, made after whatever replaces parameters "
            "(fully_shard, a new layer); give all models to one initialize"
        )
