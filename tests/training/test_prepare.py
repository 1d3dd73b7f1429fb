"""What prepare accepts, what it refuses and how, and that a refusal changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mixprec.nn import conversion_of, convert
from mixprec.specs import Moments, recipe
from mixprec.training import prepare


def linear(dtype=torch.float32):
    torch.manual_seed(0)
    return nn.Linear(2, 1).to(dtype)


def sgd(model, lr=0.1):
    return torch.optim.SGD(model.parameters(), lr=lr)


def test_a_converted_model_keeps_its_recipe():
    model = linear()
    conversion = convert(model, "bf16")
    session = prepare(model, sgd(model))
    assert session.recipe == recipe("bf16")
    assert conversion_of(model) is conversion
    with pytest.raises(ValueError, match="converted to recipe bf16 already, got recipe fp16"):
        prepare(model, sgd(model), "fp16")
    session.restore()
    assert type(model) is nn.Linear
    assert conversion_of(model) is None


# Torch's compiler instantiates autograd functions itself, and its own imports use torch.jit.
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning")
def test_a_converted_model_that_was_compiled_is_accepted():
    torch._dynamo.reset()  # each code object is compiled a limited number of times in a process
    model = linear()
    convert(model, "bf16")
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    session = prepare(compiled, sgd(model))
    assert session.step(compiled(torch.ones(4, 2)).square().mean()).applied


def compiled(model):
    return torch.compile(model, backend="eager")


def scripted(model):
    with pytest.warns((DeprecationWarning, FutureWarning), match=r"torch\.jit"):
        return torch.jit.script(model)


def sharded_class(model):
    model.__class__ = type("FSDPLinear", (type("FSDPModule", (), {}), nn.Linear), {})
    return model


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (compiled, "compiled by torch.compile; the order is: mixprec.convert"),
        (scripted, "torch.jit module, which is not supported"),
        (sharded_class, "FSDPLinear; the order is: mixprec.convert .* then fully_shard or DDP, then the optimizer"),
        (nn.DataParallel, "DataParallel; the order is"),
    ],
)
def test_a_model_that_comes_too_late_is_refused_with_the_order(wrap, message):
    model = wrap(linear())
    with pytest.raises(ValueError, match=message):
        prepare(model, sgd(model), "bf16")


def test_optimizers_that_do_not_fit_are_refused():
    model, other = linear(), linear()
    empty = sgd(model)
    empty.param_groups.clear()
    for optimizer, message in (
        (empty, "no parameters"),
        (sgd(other), r"2 of 2 parameters of the optimizer are not the model's \(shapes \[1, 2\], \[1\]\)"),
        (torch.optim.LBFGS(model.parameters()), "LBFGS.step needs a closure"),
        (
            {"a": sgd(model), "b": sgd(model)},
            "weight is in optimizer 'a' and in optimizer 'b': each would update it; give it to one",
        ),
        ([], "got no optimizer"),
        (
            [torch.optim.SGD([model.weight]), torch.optim.LBFGS([model.bias])],
            "optimizer 'optimizer1': LBFGS.step needs",
        ),
        (
            [torch.optim.SGD([model.weight]), sgd(other)],
            "2 of 2 parameters of optimizer 'optimizer1' are not the model's",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            prepare(model, optimizer, "bf16")
    with pytest.raises(TypeError, match=r"expected a torch\.optim.Optimizer"):
        prepare(model, model.parameters(), "bf16")
    assert type(model) is nn.Linear


def test_an_optimizer_is_prepared_once():
    model = linear(torch.bfloat16)
    optimizer = sgd(model)
    session = prepare(model, optimizer, "bf16")
    with pytest.raises(ValueError, match=r"masters until session\.restore"):
        prepare(model, optimizer)
    session.restore()
    assert prepare(model, optimizer, "bf16").recipe.name == "bf16"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recipe": "bf17"}, "bf16"),
        ({"loss_scale": 1000}, "power of two, .* use 512 or 1024"),
        ({"loss_scale": "dinamic"}, "dynamic"),
        ({"clip_norm": 0.0}, "clip_norm is 0.0"),
        ({"clip_norm": float("nan")}, "clip_norm is nan"),
    ],
)
def test_a_refused_option_leaves_the_model_alone(options, message):
    model = linear()
    with pytest.raises(ValueError, match=message):
        prepare(model, sgd(model), **{"recipe": "fp16", **options})
    assert type(model) is nn.Linear


def test_an_unwritable_run_folder_fails_first_and_leaves_the_model_alone(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    model = linear(torch.bfloat16)
    optimizer = sgd(model)
    with pytest.raises(OSError, match="file"):
        prepare(model, optimizer, "bf16", run=tmp_path / "file" / "run")
    assert type(model) is nn.Linear
    assert optimizer.param_groups[0]["params"][0] is model.weight
    prepare(model, optimizer, "bf16")


@pytest.mark.parametrize("name", ["bf16-true", "bf16-sr", "bf16-kahan", "bf16-split"])
def test_a_recipe_of_16_bit_weights_narrows_the_model_and_says_so(name):
    model = linear()
    before = model.weight.detach().clone()
    session = prepare(model, sgd(model), name)
    assert model.weight.dtype == model.bias.dtype == torch.bfloat16
    (note,) = session.notes
    assert note.startswith(f"2 fp32 parameters were brought to bf16, as recipe {name} keeps them")
    session.restore()
    assert model.weight.dtype == torch.float32
    assert torch.allclose(model.weight, before, rtol=2**-8)
    if name == "bf16-split":
        assert torch.equal(model.weight, before)


def test_a_refused_preparation_leaves_a_narrowed_model_as_it_was():
    model = linear()
    before = model.weight.detach().clone()
    with pytest.raises(ValueError, match=r"moments of kind 'bf16' are kept by mixprec\.optim\.AdamW and"):
        prepare(model, sgd(model), recipe("bf16-true", moments=Moments(kind="bf16")))
    assert torch.equal(model.weight, before)
    assert type(model) is nn.Linear


def test_16_bit_weights_where_none_can_be_are_told():
    model = nn.BatchNorm1d(2)
    assert "none of the model's can be" in prepare(model, sgd(model), "bf16-true").notes[-1]


def test_auto_says_why():
    model = linear()
    session = prepare(model, sgd(model))
    assert session.recipe.reason in [e.message for e in session.events]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        *(
            ({"clip_norm": value}, TypeError, "clip_norm is .*, expected a number above 0, or None")
            for value in ("a", [1])
        ),
        ({"clip_norm": True}, TypeError, r"clip_norm is True \(bool\)"),
        ({"seed": "a"}, TypeError, r"seed is 'a' \(str\), expected an integer"),
        ({"seed": 1.5}, TypeError, "seed is 1.5"),
        ({"total_steps": "10"}, TypeError, "total_steps is '10'"),
        ({"total_steps": 0}, ValueError, "total_steps is 0, expected 1 or more"),
        ({"loss_scale": True}, TypeError, r"loss scale is True \(bool\), expected a number, 'none', 'dynamic'"),
        ({"loss_scale": [1]}, TypeError, r"loss scale is \[1\]"),
        ({"recipe": 3}, TypeError, r"recipe is 3 \(int\), expected a name"),
    ],
)
def test_arguments_that_are_none_are_refused_in_words(options, error, message):
    model = nn.Linear(2, 1)
    with pytest.raises(error, match=message):
        prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)
    assert type(model) is nn.Linear


@pytest.mark.parametrize("model", [None, [nn.Linear(2, 1)], nn.Linear])
def test_a_model_must_be_one(model):
    optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
    with pytest.raises(
        TypeError, match=r"prepare: model is a .*, expected a torch.nn.Module; the order is prepare\(model"
    ):
        prepare(model, optimizer)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"recipe": None}, TypeError, "recipe is None .*, expected a name or the path of a TOML file"),
        ({"recipe": {"name": "a"}}, TypeError, "recipe is .*, expected a name or the path of a TOML file"),
        ({"seed": 2**63}, ValueError, "prepare: seed is 9223372036854775808, expected an integer of 64 bits"),
    ],
)
def test_arguments_of_other_kinds_are_told(arguments, kind, message):
    model = nn.Linear(2, 1)
    with pytest.raises(kind, match=message):
        prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), **arguments)


def test_a_state_must_be_a_mapping():
    model = nn.Linear(2, 1)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp32")
    with pytest.raises(TypeError, match="load_state_dict: got a int, expected the mapping that"):
        session.load_state_dict(3)


def test_another_loss_scale_of_the_same_recipe_is_named() -> None:
    model = nn.Linear(2, 1)
    prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=128.0)
    with pytest.raises(ValueError, match=r"got recipe fp16, which differs \(loss_scale.initial: 128 -> 64\)"):
        prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=64.0)


def test_a_converted_model_takes_a_loss_scale_of_its_own() -> None:
    model = nn.Linear(2, 1)
    convert(model, "fp16")
    assert prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=64.0).loss_scale == 64
