"""Emission for torchao, against torchao itself, which emulates its products on a CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import mixprec
from mixprec.integrations import TorchaoEmission, emit_torchao
from mixprec.planner import Inventory, take_inventory
from mixprec.specs import LayerPrecision, Phase, Recipe, Rule, recipe

float8 = pytest.importorskip("torchao.float8")


def precision_of(name: str) -> LayerPrecision:
    """What a recipe gives to most layers."""
    found = [rule.precision for rule in recipe(name).rules if rule.precision is not None]
    return found[-1]


def recipe_of(**precisions: LayerPrecision | None) -> Recipe:
    """A recipe by path, with `_` for a dot."""
    rules = tuple(Rule(match=path.replace("_", "."), precision=precision) for path, precision in precisions.items())
    return Recipe(name="mine", rules=rules)


class Mlp(nn.Module):
    def __init__(self, *, bias: bool = True) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(64, 128, bias=bias), nn.Linear(128, 32, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.tanh(self.fc1(x)))


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x).square().mean()


def inventory_of(model: nn.Module, x: Tensor) -> Inventory:
    return take_inventory(model, loss, x)


def gradients(model: nn.Module, x: Tensor) -> list[Tensor]:
    """Output, gradient of the input, gradients of the parameters."""
    x = x.clone().requires_grad_()
    output = model(x)
    output.square().mean().backward()
    assert x.grad is not None
    return [output.detach(), x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.parametrize(
    ("name", "exactness"), [("fp8", 1e-6), ("fp8-rowwise", 0.0), ("fp8-rowwise-gw-hp", 0.0), ("mxfp8", 0.0)]
)
def test_torchao_computes_what_the_recipe_says(name: str, exactness: float) -> None:
    """Output and all gradients are mixprec's own; an exact scale's division is torchao's own, to an ulp of fp32."""
    torch.manual_seed(0)
    model, x = Mlp(bias=name != "mxfp8"), torch.randn(32, 64)
    wanted = recipe_of(fc1=precision_of(name), fc2=precision_of(name))
    theirs, ours = copy.deepcopy(model), copy.deepcopy(model)
    emit_torchao(model, wanted, inventory_of(model, x), emulate=True).apply(theirs)
    mixprec.convert(ours, wanted)
    got, expected, plain = gradients(theirs, x), gradients(ours, x), gradients(model, x)
    assert len(got) == len(expected) == len(plain)
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=exactness, atol=exactness * float(other.abs().max()))
    # Not for nothing: what is converted differs from what is not by far more.
    assert float((expected[0] - plain[0]).abs().max()) > 1e-3


def test_exactly_the_planned_layers_are_converted() -> None:
    model = nn.Sequential(Mlp(), nn.Tanh(), nn.Linear(32, 64), Mlp())
    wanted = recipe_of(**{"0_fc1": precision_of("fp8"), "3_*": precision_of("fp8-rowwise")})
    emission = emit_torchao(model, wanted, inventory_of(model, torch.randn(16, 64)), keep=["3.fc2"])
    assert [setting.layers for setting in emission.settings] == [("0.fc1",), ("3.fc1",)]
    assert emission.wide == ("0.fc2", "2")
    assert emission.kept == ("3.fc2",)
    takes = [path for path, module in model.named_modules() if emission.settings[0].takes(module, path)]
    assert takes == ["0.fc1"]
    before = dict(model.named_parameters())
    emission.apply(model)
    converted = {path for path, module in model.named_modules() if type(module).__name__ == "Float8Linear"}
    assert converted == {"0.fc1", "3.fc1"}
    assert {name: id(p) for name, p in model.named_parameters()} == {name: id(p) for name, p in before.items()}
    granularity = float8.ScalingGranularity
    assert model.get_submodule("0.fc1").config.cast_config_input.scaling_granularity is granularity.TENSORWISE
    assert model.get_submodule("3.fc1").config.cast_config_input.scaling_granularity is granularity.AXISWISE


@pytest.mark.parametrize("name", ["rowwise", "rowwise_with_gw_hp"])
def test_a_recipe_of_torchaos_is_its_own_config(name: str) -> None:
    """All that torchao's named config says is said, apart from sums in fp32."""
    ours = {"rowwise": "fp8-rowwise", "rowwise_with_gw_hp": "fp8-rowwise-gw-hp"}[name]
    model = Mlp()
    emission = emit_torchao(model, recipe_of(fc1=precision_of(ours)), inventory_of(model, torch.randn(16, 64)))
    got, theirs = emission.settings[0].make_config(), float8.Float8LinearConfig.from_recipe_name(name)
    fields = [name for name in vars(theirs) if name.startswith("cast_config")]
    assert len(fields) == 6
    for field in fields:
        one, other = getattr(got, field), getattr(theirs, field)
        assert (one.scaling_type, one.target_dtype) == (other.scaling_type, other.target_dtype)
        assert one.scaling_granularity == other.scaling_granularity
    assert got.round_scales_to_power_of_2 is theirs.round_scales_to_power_of_2 is True
    assert got.gemm_config_output.use_fast_accum is False


def test_nvfp4_replaces_layers_that_have_a_bias() -> None:
    model = nn.Sequential(nn.Linear(128, 256), nn.Linear(256, 128)).to(torch.bfloat16)
    wanted = Recipe(name="mine", compute_dtype="bf16", rules=(Rule(match="0", precision=precision_of("nvfp4")),))
    emission = emit_torchao(model, wanted, inventory_of(model, torch.randn(128, 128, dtype=torch.bfloat16)))
    weight = model.get_parameter("0.weight")
    emission.apply(model)
    assert [type(layer).__name__ for layer in model] == ["NVFP4Linear", "Linear"]
    assert model.get_parameter("0.weight") is weight
    assert any("16/17" in note for note in emission.notes)


def test_blocks_of_128_are_a_config_that_quantize_knows() -> None:
    pytest.importorskip("triton")
    from torchao.quantization.transform_module import _QUANTIZE_CONFIG_HANDLER

    rows, tiles = "e4m3[1x128:fp32]", "e4m3[128x128:fp32]"
    model = nn.Sequential(nn.Linear(128, 128, bias=False))
    wanted = recipe_of(**{"0": LayerPrecision.of(input=rows, weight=tiles, grad_output=rows)})
    emission = emit_torchao(model, wanted, inventory_of(model, torch.randn(128, 128)))
    assert type(emission.settings[0].make_config()) in _QUANTIZE_CONFIG_HANDLER


def test_torchao_still_drops_the_bias_of_mxfp8() -> None:
    """Why biases are refused: if this fails, they need not be any more."""
    from torchao.prototype.moe_training.config import MXFP8TrainingOpConfig, MXFP8TrainingRecipe
    from torchao.quantization import quantize_

    model = nn.Sequential(nn.Linear(32, 32))
    nn.init.constant_(model.get_parameter("0.bias"), 100.0)
    quantize_(model, MXFP8TrainingOpConfig.from_recipe(MXFP8TrainingRecipe.MXFP8_EMULATED_RCEIL), lambda m, p: p == "0")
    assert float(model(torch.randn(32, 32)).detach().abs().max()) < 50


@pytest.mark.parametrize(
    ("precision", "told"),
    [
        (precision_of("mxfp8"), r"fc1: it has a bias, which torchao's MXFP8 layers leave out"),
        (precision_of("mxfp4"), r"fc1: torchao has no such casts: 'mxfp4' for every operand"),
        (precision_of("fp8-delayed"), r"fc1: its fprop_input is 'e4m3\[tensor\] delayed', and .* not by a history"),
        (precision_of("nvfp4"), r"fc1: a feature count of \(128, 64\) is no multiple of 128"),
        (LayerPrecision.of(input="e4m3[tensor]"), r"fc1: its fprop_weight is in the compute dtype and"),
        (LayerPrecision.uniform("e5m2[tensor]"), r"fc1: its fprop_input and fprop_weight are both e5m2"),
        (LayerPrecision.uniform("e4m3[tensor] sr"), r"fc1: its fprop_input .* round to nearest"),
        (LayerPrecision.uniform("e4m3[tensor:e8m0]"), r"fc1: its fprop_input .* powers of two by rceil"),
        (
            LayerPrecision.of(input="e4m3[tensor]", weight="e4m3[tensor:e8m0] rceil", grad_output="e4m3[tensor]"),
            r"fc1: some of its scales are powers of two and some are not",
        ),
        (
            LayerPrecision.uniform("e4m3[tensor]", accumulator=mixprec.specs.Accumulator(mantissa_bits=14)),
            r"fc1: its sums are narrow \(m14 rtz\)",
        ),
    ],
)
def test_what_torchao_has_not_is_refused_by_name(precision: LayerPrecision, told: str) -> None:
    model = Mlp()
    with pytest.raises(ValueError, match=told):
        emit_torchao(model, recipe_of(fc1=precision), inventory_of(model, torch.randn(16, 64)))


def test_feature_counts_that_no_kernel_takes() -> None:
    model = nn.Sequential(nn.Linear(24, 16))
    with pytest.raises(ValueError, match=r"0: a feature count of \(16, 24\) is no multiple of 16"):
        emit_torchao(model, recipe_of(**{"0": precision_of("fp8")}), inventory_of(model, torch.randn(16, 24)))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(64, 32), nn.Linear(32, 64, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x))


def test_a_tied_weight_stays_tied_or_is_refused() -> None:
    """Float8Linear keeps the parameter; MXFP8 would make it another one."""
    model, x = Tied(), torch.arange(64)
    inventory = inventory_of(model, x)
    emit_torchao(model, recipe_of(head=precision_of("fp8")), inventory).apply(model)
    assert model.head.weight is model.embedding.weight
    with pytest.raises(ValueError, match="head: it shares its weight with embedding"):
        emit_torchao(Tied(), recipe_of(head=precision_of("mxfp8")), inventory)


def test_the_file_does_the_same_without_mixprec() -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Mlp(), nn.Tanh(), nn.Linear(32, 16, bias=False)), torch.randn(32, 64)
    wanted = recipe_of(**{"0_*": precision_of("fp8"), "2": precision_of("fp8-rowwise")})
    emission = emit_torchao(model, wanted, inventory_of(model, x), keep=["0.fc2"], emulate=True)
    text = emission.to_source()
    assert "mixprec" not in text
    namespace: dict[str, object] = {}
    exec(compile(text, "precision.py", "exec"), namespace)
    by_file, by_object = copy.deepcopy(model), copy.deepcopy(model)
    namespace["apply"](by_file)  # type: ignore[operator]
    emission.apply(by_object)
    assert [type(m) for m in by_file.modules()] == [type(m) for m in by_object.modules()]
    for one, other in zip(gradients(by_file, x), gradients(by_object, x), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match=r"no nn.Linear at \['0.fc1', '2'\]"):
        namespace["apply"](nn.Sequential(nn.ReLU()))  # type: ignore[operator]


def test_equal_input_gives_equal_text() -> None:
    def text() -> str:
        model = Mlp()
        return emit_torchao(
            model, recipe_of(fc1=precision_of("fp8")), inventory_of(model, torch.randn(16, 64))
        ).to_source()

    assert text() == text()


def test_another_model_is_refused_before_anything_is_converted() -> None:
    model = Mlp()
    emission = emit_torchao(
        model, recipe_of(fc1=precision_of("fp8"), fc2=precision_of("fp8")), inventory_of(model, torch.randn(16, 64))
    )
    other = Mlp()
    other.fc2 = nn.Identity()  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"nn\.Linear at fc2, and this one has Identity there"):
        emission.apply(other)
    assert type(other.fc1) is nn.Linear


def test_phases_are_refused() -> None:
    model = Mlp()
    wanted = Recipe(name="late", rules=(Rule(match="fc1", precision=precision_of("fp8")),), phases=(Phase(last=0.2),))
    with pytest.raises(ValueError, match="'late' has 1 phases"):
        emit_torchao(model, wanted, inventory_of(model, torch.randn(16, 64)))


def test_without_torchao_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Mlp()
    emission: TorchaoEmission = emit_torchao(
        model, recipe_of(fc1=precision_of("fp8")), inventory_of(model, torch.randn(16, 64))
    )

    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name.partition(".")[0])

    monkeypatch.setattr("mixprec.integrations._expression.importlib.import_module", missing)
    with pytest.raises(ImportError, match=r'needs torchao, which is not installed: pip install "mixprec\[torchao\]"'):
        emission.apply(model)
    assert type(model.fc1) is nn.Linear
