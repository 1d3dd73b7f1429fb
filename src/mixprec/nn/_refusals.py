"""Models that cannot be converted as they are: one error each, naming the order to use."""

from __future__ import annotations

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

_ORDER = "the order is: mixprec.convert (or prepare), then fully_shard or DDP, then the optimizer, then torch.compile"


def refuse_no_model(model: object) -> None:
    """Raise a ``TypeError`` for what is no module, such as a function."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"convert: model is a {type(model).__name__}, expected a torch.nn.Module: convert the module whose layers "
            "multiply; mixprec.functional has casts for code outside of one"
        )


def refuse_unconvertible(model: nn.Module, *, restoring: bool = False) -> None:
    """Raise a ``ValueError`` for a compiled, scripted, sharded or lazy model, or one that is converted already.

    Args:
        model: the root.
        restoring: whether the conversion is being undone, which a converted model may.
    """
    what = "restore" if restoring else "convert"
    for name, module in model.named_modules():
        classes = {cls.__name__ for cls in type(module).__mro__}
        where = name or "the model"
        in_place = not restoring and module._compiled_call_impl is not None  # pyright: ignore[reportPrivateUsage]  # by module.compile()
        if "OptimizedModule" in classes or in_place:
            raise ValueError(f"{what}: {where} is compiled by torch.compile; {_ORDER}")
        if classes & {"ScriptModule", "RecursiveScriptModule", "TopLevelTracedModule"}:
            raise ValueError(f"{what}: {where} is a torch.jit module, which is not supported; convert the eager model")
        if not restoring and isinstance(module, LazyModuleMixin) and module.has_uninitialized_params():  # pyright: ignore[reportAttributeAccessIssue]  # a mixin of modules
            raise ValueError(
                f"convert: {where} is a {type(module).__name__} whose shapes are not known yet: run one forward pass "
                "of the model first"
            )
        if classes & {"FSDPModule", "FullyShardedDataParallel", "DistributedDataParallel", "DataParallel"}:
            kind = type(module).__name__
            raise ValueError(f"{what}: {where} is wrapped as {kind}; {_ORDER}; {what} the inner model before wrapping")
        if not restoring and ("_mixprec_region" in module.__dict__ or "_mixprec_site" in module.__dict__):
            raise ValueError(f"convert: {where} is converted already; call restore() on its conversion first")
