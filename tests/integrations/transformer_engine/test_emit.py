"""Emission for Transformer Engine, against a stand-in that mirrors its documentation (``double.py``)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import mixprec
from mixprec.integrations import TransformerEngineEmission, emit_transformer_engine
from mixprec.planner import take_inventory
from mixprec.specs import LayerPrecision, Recipe, Rule, parse_cast, recipe

from . import double


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> double.Double:
    made = double.Double()
    made.install(monkeypatch)
    return made


def precision_of(name: str) -> LayerPrecision:
    """What a recipe gives to most layers."""
    found = [rule.precision for rule in recipe(name).rules if rule.precision is not None]
    return found[-1]


def recipe_of(**precisions: LayerPrecision) -> Recipe:
    rules = tuple(Rule(match=path, precision=precision) for path, precision in precisions.items())
    return Recipe(name="mine", rules=rules)


def by_product(fprop: str, dgrad: str, wgrad: str) -> LayerPrecision:
    """One cast for both operands of each product; an empty one leaves it in the compute dtype."""
    casts = [parse_cast(text) if text else None for text in (fprop, dgrad, wgrad)]
    return LayerPrecision(
        fprop_input=casts[0],
        fprop_weight=casts[0],
        dgrad_grad_output=casts[1],
        dgrad_weight=casts[1],
        wgrad_grad_output=casts[2],
        wgrad_input=casts[2],
    )


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(128, 256), nn.Linear(256, 128, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.tanh(self.fc1(x)))


def emitted(model: nn.Module, wanted: Recipe, **options: Any) -> TransformerEngineEmission:
    x = torch.randn(128, 128)
    inventory = take_inventory(model, lambda model, x: model(x).square().mean(), x)
    return emit_transformer_engine(model, wanted, inventory, **options)


def gradients(layer: nn.Module, x: Tensor, grad_output: Tensor) -> list[Tensor]:
    """Output and gradients of a layer.

    The gradient that comes in is given: where it came from the output, the last bit of a sum, which depends
    on the processor's kernels, decided which way a cast of it rounds.
    """
    x = x.clone().requires_grad_()
    output = layer(x)
    return [output.detach(), *torch.autograd.grad(output, [x, *layer.parameters()], grad_output)]


NVFP4_FORWARD = LayerPrecision(
    fprop_input=parse_cast("nvfp4"),
    fprop_weight=parse_cast("nvfp4-2d"),
    dgrad_grad_output=parse_cast("nvfp4"),
    dgrad_weight=parse_cast("nvfp4-2d"),
    wgrad_grad_output=parse_cast("nvfp4 rht16"),
    wgrad_input=parse_cast("nvfp4 rht16"),
)


@pytest.mark.parametrize("by_file", [False, True])
@pytest.mark.parametrize(
    "precision",
    [
        precision_of("fp8"),
        precision_of("fp8-block"),
        precision_of("mxfp8"),
        NVFP4_FORWARD,
        LayerPrecision.uniform("e4m3[tensor:e8m0] rceil"),
        by_product("mxfp8 rceil", "nvfp4", ""),
        by_product("e4m3[tensor]", "", "mxfp8 rceil"),
    ],
    ids=["fp8", "fp8-block", "mxfp8", "nvfp4", "powers of two", "three formats", "three others"],
)
def test_every_operand_is_cast_as_the_recipe_says(
    engine: double.Double, precision: LayerPrecision, by_file: bool
) -> None:
    """Output and gradients are those of mixprec's own conversion; the other layer is left alone."""
    torch.manual_seed(0)
    model, x, grad_output = Mlp(), torch.randn(128, 128), torch.randn(128, 256)
    wanted = recipe_of(fc1=precision)
    emission = emitted(model, wanted)
    theirs, ours = copy.deepcopy(model), copy.deepcopy(model)
    apply, make_recipe = emission.apply, emission.make_recipe
    if by_file:
        namespace: dict[str, Any] = {}
        text = emission.to_source()
        assert "mixprec" not in text.replace("mixprec rounds", "")
        exec(compile(text, "precision.py", "exec"), namespace)
        apply, make_recipe = namespace["apply"], namespace["make_recipe"]
    apply(theirs)
    mixprec.convert(ours, wanted)
    with engine.te.autocast(enabled=True, recipe=make_recipe()):
        got = gradients(theirs.fc1, x, grad_output)
        output = theirs(x)
    expected, plain = (gradients(one.fc1, x, grad_output) for one in (ours, model))
    torch.testing.assert_close(output, ours(x), rtol=1e-5, atol=1e-6)
    assert type(theirs.fc2) is nn.Linear
    assert theirs.fc1.name == "fc1"
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6 * float(other.abs().max()))
    assert float((expected[0] - plain[0]).abs().max()) > 1e-3


def test_what_is_of_no_layer_stays_in_high_precision(engine: double.Double) -> None:
    emission = emitted(Mlp(), recipe_of(fc1=by_product("mxfp8 rceil", "nvfp4", "")))
    for role in (None, double.QuantizerRole("linear", "input", "fc2"), double.QuantizerRole("linear", "output", "fc1")):
        assert isinstance(emission.quantizer_factory(role), double.IdentityQuantizer)


def test_each_call_makes_a_fresh_quantizer(engine: double.Double) -> None:
    emission = emitted(Mlp(), recipe_of(fc1=precision_of("mxfp8")))
    role = double.QuantizerRole("linear", "weight", "fc1")
    assert emission.quantizer_factory(role) is not emission.quantizer_factory(role)


def test_nvfp4_is_transformer_engines_own_set(engine: double.Double) -> None:
    """The arguments are those of its factory that mirrors NVFP4BlockScaling."""
    emission = emitted(Mlp(), recipe_of(fc1=precision_of("nvfp4")))
    made = {
        t: emission.quantizer_factory(double.QuantizerRole("linear", t, "fc1"))
        for t in ("input", "weight", "grad_output")
    }
    flags = {t: (q.with_rht, q.with_2d_quantization, q.stochastic_rounding) for t, q in made.items()}
    assert flags == {
        "input": (True, False, False),
        "weight": (False, True, False),
        "grad_output": (True, False, True),
    }
    assert all(type(q) is double.NVFP4Quantizer for q in made.values())


def test_delayed_scales_are_requested(engine: double.Double) -> None:
    delayed = LayerPrecision.of(
        input="e4m3[tensor] delayed(16,recent,1)",
        weight="e4m3[tensor] delayed(16,recent,1)",
        grad_output="e5m2[tensor] delayed(16,recent,1)",
    )
    emission = emitted(Mlp(), recipe_of(fc1=delayed))
    made = emission.quantizer_factory(double.QuantizerRole("linear", "grad_output", "fc1"))
    assert made == double.DelayedScalingRequest(double.Format.HYBRID, 1, 16, "most_recent")
    assert emission.built_in is None


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("fp8", "Float8CurrentScaling"),
        ("fp8-delayed", "DelayedScaling"),
        ("fp8-block", "Float8BlockScaling"),
        ("mxfp8", "MXFP8BlockScaling"),
        ("nvfp4", "NVFP4BlockScaling"),
    ],
)
def test_its_own_recipe_is_used_where_it_is_what_is_asked(name: str, class_name: str) -> None:
    emission = emitted(Mlp(), recipe_of(fc1=precision_of(name), fc2=precision_of(name)))
    assert emission.built_in is not None
    assert emission.built_in.function.name == class_name
    assert f"from transformer_engine.common.recipe import {class_name}" in emission.to_source()
    assert f"return {class_name}()" in emission.to_source()


def test_two_formats_are_a_custom_recipe(engine: double.Double) -> None:
    emission = emitted(Mlp(), recipe_of(fc1=precision_of("mxfp8"), fc2=precision_of("fp8")))
    assert emission.built_in is None
    assert [setting.layers for setting in emission.settings] == [("fc1",), ("fc2",)]
    assert isinstance(emission.make_recipe(), double.CustomRecipe)


def test_weights_and_names_stay(engine: double.Double) -> None:
    model = Mlp()
    model.fc1.weight.requires_grad_(False)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    emitted(model, recipe_of(fc1=precision_of("mxfp8"), fc2=precision_of("mxfp8"))).apply(model.eval())
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert not model.fc1.weight.requires_grad
    assert not model.fc1.training


@pytest.mark.parametrize(
    ("precision", "told"),
    [
        (precision_of("fp8-rowwise"), r"fc1: its fprop_input is 'e4m3\[row:e8m0\] rceil', and .* no quantizer"),
        (precision_of("mxfp4"), r"fc1: its fprop_input is 'mxfp4', and .* no quantizer"),
        (precision_of("int8"), r"fc1: its fprop_input is 'int8\[row\]'"),
        (LayerPrecision.uniform("mxfp8"), r"fc1: its fprop_input is 'mxfp8', and .* say rceil"),
        (precision_of("fp4-all-the-way"), r"fc1: its wgrad_input is 'nvfp4 sr', and .* gradients alone"),
        (LayerPrecision.uniform("nvfp4 rht16"), r"fc1: its fprop_input .* operands of wgrad alone"),
        (LayerPrecision.uniform("nvfp4 4/6"), r"fc1: its fprop_input .* scales a block's amax to 6"),
        (LayerPrecision.uniform("e5m2[tensor]"), r"fc1: its fprop_input and fprop_weight are both e5m2"),
        (LayerPrecision.uniform("e4m3[128x128:e8m0] rceil"), r"both have blocks of 128x128"),
        (LayerPrecision.of(input="e4m3[tensor]"), r"fc1: its fprop_input is fp8 and its fprop_weight wide"),
        (
            LayerPrecision.of(input="mxfp8 rceil", weight="nvfp4", grad_output="nvfp4"),
            r"is mxfp8 and its fprop_weight nvfp4",
        ),
        (
            LayerPrecision.of(
                input="e4m3[tensor] delayed", weight="e4m3[tensor] delayed(16)", grad_output="e5m2[tensor] delayed"
            ),
            r"fc1: its delayed scales differ",
        ),
        (
            LayerPrecision(
                fprop_input=parse_cast("e4m3[tensor] delayed"),
                fprop_weight=parse_cast("e4m3[tensor] delayed"),
            ),
            r"fc1: its input has a delayed scale in one product and not the same in the other",
        ),
        (
            LayerPrecision.uniform("mxfp8 rceil", accumulator=mixprec.specs.Accumulator(mantissa_bits=14)),
            r"fc1: its sums are narrow",
        ),
    ],
)
def test_what_transformer_engine_has_not_is_refused_by_name(precision: LayerPrecision, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        emitted(Mlp(), recipe_of(fc1=precision))


def test_a_tied_weight_is_refused() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(64, 128), nn.Linear(128, 64, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.head(x)

    with pytest.raises(ValueError, match="head: it shares its weight with embedding"):
        emitted(Tied(), recipe_of(head=precision_of("mxfp8")))


def test_without_transformer_engine_it_says_what_to_install() -> None:
    emission = emitted(Mlp(), recipe_of(fc1=by_product("mxfp8 rceil", "nvfp4", "")))
    with pytest.raises(ImportError, match="needs transformer_engine, which is not installed: pip install"):
        emission.make_recipe()
