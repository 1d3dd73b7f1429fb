"""A stand-in for Transformer Engine, which does not import without CUDA.

It mirrors what Transformer Engine's documentation says of its PyTorch interface (docs/api/pytorch.rst, common.rst
and "Fine-grained quantization recipes" of release 2.2x), and nothing else:

- names and signatures: ``te.Linear(in_features, out_features, bias=True, **kwargs)`` with ``params_dtype``, ``device``
  and ``name``; ``te.autocast(enabled, calibrating, recipe, amax_reduction_group)``; ``QuantizerRole(module_type,
  tensor_type, name)``; ``CustomRecipe(qfactory=)``; quantizers, with the keywords that ``custom_recipes/
  quantizer_factories.py`` passes them;
- built-in recipes have the defaults that the same file says mirror them;
- a factory is called for each slot, and may not return ``None``; ``HybridQuantizer`` takes two distinct quantizers and
  no request; a plain quantizer makes both representations;
- fprop reads ``weight.rowwise`` and ``input.rowwise``, dgrad ``weight.columnwise`` and ``grad_output.rowwise``, wgrad
  ``input.columnwise`` and ``grad_output.columnwise``; both operands of a product must be of one family;
- NVFP4's Hadamard transform is of the columnwise representation alone.

Numbers come from ``mixprec.fake_quantize``, by the formats and scales that the documentation gives each quantizer: what
a test shows is that the right cast reaches the right operand of the right layer. Kernels, delayed histories and devices
are not mirrored.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mixprec


class DType(enum.Enum):
    kFloat8E4M3 = "e4m3"
    kFloat8E5M2 = "e5m2"
    kFloat4E2M1 = "e2m1"


class Format(enum.Enum):
    E4M3 = "e4m3"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class QuantizerRole:
    module_type: str = ""
    tensor_type: str = ""
    name: str = ""


class Quantizer:
    family = "wide"

    def cast(self, *, columnwise: bool) -> str | None:
        """The cast of a representation along its reduction."""
        return None

    def quantize(self, x: Tensor, *, columnwise: bool) -> Tensor:
        cast = self.cast(columnwise=columnwise)
        return x if cast is None else mixprec.fake_quantize(x.contiguous(), cast, seed=1)

    def family_of(self, *, columnwise: bool) -> str:
        return self.family


class IdentityQuantizer(Quantizer):
    def __init__(self, *, dtype: torch.dtype | None = None, rowwise: bool = True, columnwise: bool = True) -> None:
        self.dtype = dtype


class Float8CurrentScalingQuantizer(Quantizer):
    family = "fp8"

    def __init__(
        self, fp8_dtype: DType, device: torch.device, *, force_pow_2_scales: bool = False, amax_epsilon: float = 0.0
    ) -> None:
        assert isinstance(device, torch.device)
        self.fp8_dtype, self.force_pow_2_scales, self.amax_epsilon = fp8_dtype, force_pow_2_scales, amax_epsilon

    def cast(self, *, columnwise: bool) -> str:
        return f"{self.fp8_dtype.value}[tensor{':e8m0] rceil' if self.force_pow_2_scales else ']'}"


class MXFP8Quantizer(Quantizer):
    family = "mxfp8"

    def __init__(self, fp8_dtype: DType, *, rowwise: bool = True, columnwise: bool = True) -> None:
        self.fp8_dtype = fp8_dtype

    def cast(self, *, columnwise: bool) -> str:
        return f"{self.fp8_dtype.value}[1x32:e8m0] rceil"


class Float8BlockQuantizer(Quantizer):
    family = "block"

    def __init__(
        self,
        fp8_dtype: DType,
        *,
        rowwise: bool,
        columnwise: bool,
        amax_epsilon: float = 0.0,
        force_pow_2_scales: bool = True,
        block_scaling_dim: int = 2,
    ) -> None:
        self.fp8_dtype, self.block_scaling_dim = fp8_dtype, block_scaling_dim
        self.force_pow_2_scales = force_pow_2_scales

    def cast(self, *, columnwise: bool) -> str:
        block = "128x128" if self.block_scaling_dim == 2 else "1x128"
        return f"{self.fp8_dtype.value}[{block}:{'e8m0] rceil' if self.force_pow_2_scales else 'fp32]'}"


class NVFP4Quantizer(Quantizer):
    family = "nvfp4"

    def __init__(
        self,
        fp4_dtype: DType = DType.kFloat4E2M1,
        *,
        with_rht: bool = False,
        with_post_rht_amax: bool = False,
        with_2d_quantization: bool = False,
        stochastic_rounding: bool = False,
        with_random_sign_mask: bool = True,
    ) -> None:
        assert with_rht == with_post_rht_amax, "should match"
        self.with_rht, self.with_2d_quantization = with_rht, with_2d_quantization
        self.stochastic_rounding, self.with_random_sign_mask = stochastic_rounding, with_random_sign_mask

    def cast(self, *, columnwise: bool) -> str:
        words = ["nvfp4-2d" if self.with_2d_quantization else "nvfp4"]
        words += ["sr"] if self.stochastic_rounding else []
        if self.with_rht and columnwise:
            words.append("rht16" if self.with_random_sign_mask else "ht16")
        return " ".join(words)


class HybridQuantizer(Quantizer):
    def __init__(
        self, *, rowwise_quantizer: Quantizer, columnwise_quantizer: Quantizer, columnwise_source: str = "original"
    ) -> None:
        assert isinstance(rowwise_quantizer, Quantizer)
        assert isinstance(columnwise_quantizer, Quantizer)
        assert rowwise_quantizer is not columnwise_quantizer
        assert columnwise_source == "original"
        self.rowwise_quantizer, self.columnwise_quantizer = rowwise_quantizer, columnwise_quantizer

    def _of(self, *, columnwise: bool) -> Quantizer:
        return self.columnwise_quantizer if columnwise else self.rowwise_quantizer

    def cast(self, *, columnwise: bool) -> str | None:
        return self._of(columnwise=columnwise).cast(columnwise=columnwise)

    def family_of(self, *, columnwise: bool) -> str:
        return self._of(columnwise=columnwise).family


@dataclass(frozen=True)
class DelayedScalingRequest:
    fp8_format: Format = Format.HYBRID
    margin: int = 0
    amax_history_len: int = 1024
    amax_compute_algo: str = "max"


@dataclass(frozen=True)
class CustomRecipe:
    qfactory: Callable[[QuantizerRole | None], Any]


class MXFP8BlockScaling:
    def qfactory(self, role: QuantizerRole) -> Quantizer:
        return MXFP8Quantizer(DType.kFloat8E4M3)


class Float8CurrentScaling:
    def qfactory(self, role: QuantizerRole) -> Quantizer:
        dtype = DType.kFloat8E5M2 if role.tensor_type == "grad_output" else DType.kFloat8E4M3
        return Float8CurrentScalingQuantizer(dtype, torch.device("cuda"))


class Float8BlockScaling:
    def qfactory(self, role: QuantizerRole) -> Quantizer:
        dim = 2 if role.tensor_type == "weight" else 1
        return Float8BlockQuantizer(DType.kFloat8E4M3, rowwise=True, columnwise=True, block_scaling_dim=dim)


@dataclass
class _Current:
    recipe: Any = None
    roles: list[QuantizerRole | None] = field(default_factory=list)


class Double:
    """The modules, and what was asked of the factory."""

    def __init__(self) -> None:
        self.current = _Current()
        self.te, self.recipe = ModuleType("transformer_engine.pytorch"), ModuleType("transformer_engine.common.recipe")
        self.quantization = ModuleType("transformer_engine.pytorch.quantization")
        for name in ("DType", "QuantizerRole", "IdentityQuantizer", "HybridQuantizer", "MXFP8Quantizer"):
            setattr(self.te, name, globals()[name])
        for name in ("Float8CurrentScalingQuantizer", "Float8BlockQuantizer", "NVFP4Quantizer"):
            setattr(self.te, name, globals()[name])
        self.te.autocast, self.te.Linear = self.autocast, self.linear_class()  # type: ignore[attr-defined]
        self.quantization.DelayedScalingRequest = DelayedScalingRequest  # type: ignore[attr-defined]
        for name in ("CustomRecipe", "Format", "MXFP8BlockScaling", "Float8CurrentScaling", "Float8BlockScaling"):
            setattr(self.recipe, name, globals()[name])

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        root, common = ModuleType("transformer_engine"), ModuleType("transformer_engine.common")
        root.pytorch, root.common, common.recipe = self.te, common, self.recipe  # type: ignore[attr-defined]
        modules = (root, self.te, self.quantization, common, self.recipe)
        for module in modules:
            monkeypatch.setitem(sys.modules, module.__name__, module)

    @contextmanager
    def autocast(
        self, enabled: bool = True, calibrating: bool = False, recipe: Any = None, amax_reduction_group: Any = None
    ) -> Iterator[None]:
        before, self.current.recipe = self.current.recipe, recipe if enabled else None
        yield
        self.current.recipe = before

    def linear_class(double) -> type[nn.Module]:
        class Linear(nn.Module):
            def __init__(
                self,
                in_features: int,
                out_features: int,
                bias: bool = True,
                *,
                params_dtype: torch.dtype | None = None,
                device: torch.device | str = "cuda",
                name: str | None = None,
            ) -> None:
                super().__init__()
                self.name = name
                self.weight = nn.Parameter(torch.zeros(out_features, in_features, dtype=params_dtype, device=device))
                self.bias = nn.Parameter(torch.zeros(out_features, dtype=params_dtype, device=device)) if bias else None

            def forward(self, input: Tensor) -> Tensor:
                recipe = double.current.recipe
                quantizers = [_asked(double, recipe, kind, self.name or "") for kind in SLOTS]
                output = _Products.apply(input, self.weight, *quantizers)
                return output if self.bias is None else output + self.bias

        return Linear


SLOTS = ("input", "weight", "grad_output")


def _asked(double: Double, recipe: Any, tensor_type: str, name: str) -> Quantizer:
    if recipe is None:
        return IdentityQuantizer()
    role = QuantizerRole(module_type="linear", tensor_type=tensor_type, name=name)
    double.current.roles.append(role)
    made = recipe.qfactory(role)
    assert isinstance(made, Quantizer), made
    return made


class _Products(torch.autograd.Function):
    """The documented table of products and representations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, *quantizers: Quantizer) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.quantizers = of_x, of_weight, of_gradient = quantizers
        assert of_x.family_of(columnwise=False) == of_weight.family_of(columnwise=False), "fprop"
        assert of_weight.family_of(columnwise=True) == of_gradient.family_of(columnwise=False), "dgrad"
        assert of_x.family_of(columnwise=True) == of_gradient.family_of(columnwise=True), "wgrad"
        return of_x.quantize(x, columnwise=False) @ of_weight.quantize(weight, columnwise=False).T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_gradient = ctx.quantizers
        dgrad = of_gradient.quantize(gradient, columnwise=False) @ of_weight.quantize(weight.T, columnwise=True).T
        wgrad = of_gradient.quantize(gradient.T, columnwise=True) @ of_x.quantize(x.T, columnwise=True).T
        return dgrad, wgrad, None, None, None
