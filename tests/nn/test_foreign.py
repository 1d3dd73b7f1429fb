"""Layers of quantization libraries and adapters are left as they are, and named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import Recipe, recipe


class Linear8bitLt(nn.Linear):
    """A stand-in for the layer of bitsandbytes: int8 weights that its own forward unpacks."""

    def __init__(self, source: nn.Linear) -> None:
        super().__init__(source.in_features, source.out_features)
        scale = source.weight.detach().abs().amax(1, keepdim=True) / 127
        self.weight = nn.Parameter((source.weight.detach() / scale).round().to(torch.int8), requires_grad=False)
        self.scale = nn.Buffer(scale)
        self.bias = nn.Parameter(source.bias.detach())

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input.float(), self.weight.float() * self.scale, self.bias)


Linear8bitLt.__module__ = "bitsandbytes.nn.modules"


class LoraLinear(nn.Module):
    """A stand-in for peft's layer: a frozen base and two small matrices."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base.requires_grad_(False)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 4, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(4, base.out_features, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x))


LoraLinear.__module__ = "peft.tuners.lora.layer"


def emulated(name: str) -> Recipe:
    return recipe(name, engine="emulated")


def measured(model: nn.Module, name: str) -> Any:
    conversion = convert(model, emulated(name))
    with conversion.measured():
        model(torch.randn(6, 32)).sum().backward()
    return conversion


@pytest.mark.parametrize("name", ["mxfp8", "bf16"])
def test_a_layer_of_bitsandbytes(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Linear8bitLt(nn.Linear(32, 32)), nn.Linear(32, 32))
    x = torch.randn(6, 32)
    want = model[0](x)
    conversion = measured(model, name)
    assert "0 left as it is: a layer of bitsandbytes" in " ".join(conversion.notes)
    if name == "mxfp8":  # its own product is fp32; a bf16 recipe computes what it calls in bf16
        assert torch.equal(nn.Sequential(model[0])(x), want)
    rows = conversion.audit().rows
    assert {row.format for row in rows if row.site == "0"} == {"fp32" if name == "mxfp8" else "bf16"}
    assert {row.format for row in rows if row.site == "1"} == {"mxfp8 rceil" if name == "mxfp8" else "bf16"}


def test_adapters_stay_wide_under_casts_and_take_the_compute_dtype() -> None:
    model = nn.Sequential(nn.Linear(32, 32), LoraLinear(nn.Linear(32, 32)))
    conversion = measured(model, "nvfp4")
    assert conversion.notes[-1] == "recipe nvfp4: 1.lora_A.default and 1 more left as they are: an adapter of peft"
    rows = conversion.audit().rows
    adapters = {row.site for row in rows if "lora" in row.site}
    assert adapters == {"1.lora_A.default", "1.lora_B.default"}
    assert {row.format for row in rows if row.site in adapters} == {"fp32"}
    assert "nvfp4" in {row.format for row in rows if row.site == "1.base_layer"}.pop()
    assert not any(row.gemm == "wgrad" for row in rows if row.site == "1.base_layer")
    assert not conversion.audit().uncovered

    model = nn.Sequential(nn.Linear(32, 32), LoraLinear(nn.Linear(32, 32)))
    conversion = measured(model, "bf16")
    assert conversion.notes == ()
    assert conversion.audit().share("bf16") == 1.0


def test_what_is_left_alone_comes_back_as_it_was() -> None:
    model = nn.Sequential(Linear8bitLt(nn.Linear(32, 32)), LoraLinear(nn.Linear(32, 32)))
    classes = [type(m) for m in model.modules()]
    conversion = convert(model, emulated("mxfp8"))
    assert isinstance(model[0], Linear8bitLt)
    conversion.restore()
    assert [type(m) for m in model.modules()] == classes


# --- torchao ------------------------------------------------------------------------------------------


def plain() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_a_float8_layer_of_torchao(name: str) -> None:
    float8 = pytest.importorskip("torchao.float8")
    model = plain()
    config = float8.Float8LinearConfig(emulate=True)
    float8.convert_to_float8_training(model, config=config, module_filter_fn=lambda layer, path: path == "0")
    x = torch.randn(6, 32)
    want = model[0](x)
    conversion = measured(model, name)
    assert "0 left as it is: a layer of torchao" in " ".join(conversion.notes)
    assert torch.equal(model[0](x), want)
    audit = conversion.audit()
    assert {row.site for row in audit.rows} == {"0", "2"}
    assert {row.site for row in audit.uncovered} == {"0"}, "its backward products are the library's"


@pytest.mark.parametrize("name", ["mxfp8", "bf16"])
def test_a_quantized_weight_of_torchao(name: str) -> None:
    quantization = pytest.importorskip("torchao.quantization")
    model = plain()
    quantization.quantize_(model[:1], quantization.Int8WeightOnlyConfig())
    kind = type(model[0].weight).__name__
    x = torch.randn(6, 32)
    want = model[0](x)
    conversion = measured(model, name)
    assert f"0 left as it is: a weight of class {kind} of torchao" in " ".join(conversion.notes)
    assert torch.equal(model[0](x), want)
    assert {row.site for row in conversion.audit().rows} == {"0", "2"}
    assert {row.format for row in conversion.audit().rows if row.site == "2"} == {
        "mxfp8 rceil" if name == "mxfp8" else "bf16"
    }


# --- embeddings and tied heads ------------------------------------------------------------------------


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.fc, self.out = nn.Embedding(17, 32), nn.Linear(32, 32), nn.Linear(32, 17, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.fc(self.embed(tokens)))


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4", "bf16"])
def test_a_tied_head_is_a_head_and_its_embedding_is_left_alone(name: str) -> None:
    tokens = torch.randint(0, 17, (4, 6))
    plain, model = Tied(), Tied()
    conversion = convert(model, emulated(name))
    assert model.out.weight is model.embed.weight
    with conversion.measured():
        seen = model.embed(tokens)
        model(tokens).square().mean().backward()
    assert torch.equal(seen, plain.embed(tokens))
    formats = {row.site: row.format for row in conversion.audit().rows if row.gemm in ("fprop", "mm")}
    assert formats["out"] == {"mxfp8": "fp32", "nvfp4": "bf16", "bf16": "bf16"}[name]
    assert formats["fc"] == {"mxfp8": "mxfp8 rceil", "nvfp4": "nvfp4 x nvfp4-2d", "bf16": "bf16"}[name]
    plain(tokens).square().mean().backward()
    error = (model.embed.weight.grad - plain.embed.weight.grad).norm() / plain.embed.weight.grad.norm()
    assert float(error) < {"mxfp8": 0.1, "nvfp4": 0.4, "bf16": 0.02}[name]
    assert list(model.state_dict()) == list(plain.state_dict())
