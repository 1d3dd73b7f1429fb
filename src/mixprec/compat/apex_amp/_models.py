"""What a level does to a model: 16-bit parameters, products, inputs, and outputs that are fp32 again."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # torch's own; knows the output classes that libraries register

from ...nn import Conversion, conversion_of, convert
from ...optim import NarrowedParameters, narrow_parameters
from ...specs import LossScale, Recipe
from ._options import Properties

_NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16"}


def check_model(model: Any) -> nn.Module:
    """Refuse what a level cannot be given to.

    Raises:
        TypeError: no module.
        ValueError: a model in a parallel wrapper, one that is converted already, or one of 16 bits.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"initialize: got a {type(model).__name__} as a model, expected a torch.nn.Module or a list of them"
        )
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        raise ValueError(
            f"initialize: the model is in a {type(model).__name__}: expected the model itself; wrap what initialize "
            "returns"
        )
    if conversion_of(model) is not None:
        raise ValueError(
            "initialize: the model is converted already (mixprec.convert, prepare, or an earlier initialize): expected "
            "an unconverted one; all models belong into one call"
        )
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if tensor.dtype in _NAMES:
            raise ValueError(
                f"initialize: {name} is {_NAMES[tensor.dtype]}, expected fp32: leave out model.half(); the level does "
                "what it needs"
            )
    return model


class PreparedModel:
    """A model that a level has been given to; ``undo`` takes it back.

    Args:
        model: fp32.
        properties: of the level.
        outputs: dtype of outputs; ``None``: fp32.
    """

    def __init__(self, model: nn.Module, properties: Properties, outputs: torch.dtype | None) -> None:
        self._model = model
        self.narrowed: NarrowedParameters | None = None
        self._conversion: Conversion | None = None
        self._norms: list[nn.Module] = []
        self._exact = {p: p.detach() for p in model.parameters()}
        try:
            self._convert(properties)
        except BaseException:
            self.undo()
            raise
        if properties.cast_model_type is not None:
            cast = functools.partial(_cast_inputs, dtype=properties.cast_model_type)
            model.register_forward_pre_hook(cast, with_kwargs=True)
        if outputs is not None or properties.cast_model_type is not None:
            model.register_forward_hook(functools.partial(_cast_outputs, dtype=outputs or torch.float32))

    def settle(self) -> None:
        """There is no way back: let go of the fp32 values."""
        self._exact.clear()
        if self.narrowed is not None:
            self.narrowed.forget()

    def undo(self) -> None:
        """Give the model its own classes, dtypes and values back."""
        if self._conversion is not None:
            self._conversion.restore()
        for norm in self._norms:
            norm.float()
        for param, value in self._exact.items():
            param.data = value

    def _convert(self, properties: Properties) -> None:
        dtype = properties.compute
        if dtype is None:
            return
        if properties.is_narrow:
            self.narrowed = narrow_parameters(self._model, dtype)
            if not properties.keep_batchnorm_fp32:
                self._norms = [m for m in self._model.modules() if getattr(m, "running_mean", None) is not None]
                for norm in self._norms:
                    norm.to(dtype)
        recipe = Recipe(
            name=f"apex-{properties.opt_level}",
            compute_dtype="fp16" if dtype == torch.float16 else "bf16",
            residual="compute" if properties.is_narrow else "fp32",
            loss_scale=LossScale(kind="none"),
        )
        self._conversion = convert(self._model, recipe)


def _cast_inputs(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, dtype: torch.dtype
) -> tuple[Any, Any]:
    cast = functools.partial(_cast, dtype=dtype)
    return pytree.tree_map(cast, args), pytree.tree_map(cast, kwargs)


def _cast_outputs(module: nn.Module, args: tuple[Any, ...], output: Any, *, dtype: torch.dtype) -> Any:
    return pytree.tree_map(functools.partial(_cast, dtype=dtype), output)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    """A floating tensor in another dtype, or a batch of a class of the user's that has ``to``."""
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    is_batch = hasattr(value, "to") and not isinstance(value, type | nn.Module)
    return value.to(dtype) if is_batch else value
