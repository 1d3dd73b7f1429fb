"""Conversion in place: what stays, what is refused, and the way back."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from mixprec.nn import conversion_of, convert
from mixprec.specs import LayerPrecision, Recipe, Rule, parse_cast, recipe

from .models import Block, TinyGPT, gradients, loss_of, tiny_gpt, tokens

RECIPES = ("bf16", "fp16", "fp8", "mxfp8", "mxfp4", "nvfp4")


# torch's compiler instantiates autograd functions itself, and its own imports use torch.jit.
COMPILER_WARNINGS = (
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function.* should not be instantiated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.* is deprecated:DeprecationWarning"),
)


def quiet_compiler(test: Callable[..., None]) -> Callable[..., None]:
    for mark in COMPILER_WARNINGS:
        test = mark(test)
    return test


@pytest.mark.parametrize("name", RECIPES)
def test_the_model_stays_the_users(name: str) -> None:
    model = tiny_gpt()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    classes = {n: type(m) for n, m in model.named_modules()}
    signature = inspect.signature(model.forward)
    conversion = convert(model, recipe(name))
    assert conversion_of(model) is conversion
    assert list(model.state_dict()) == list(before)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(isinstance(m, classes[n]) for n, m in model.named_modules())
    assert type(model).__name__ == "TinyGPT"
    assert inspect.signature(model.forward) == signature
    loss_of(model, tokens()).backward()
    tiny_gpt().load_state_dict(model.state_dict())
    conversion.restore()
    assert {n: type(m) for n, m in model.named_modules()} == classes
    assert not any("mixprec" in key for m in model.modules() for key in vars(m))
    assert conversion_of(model) is None


@pytest.mark.parametrize("name", RECIPES)
def test_restore_gives_the_fp32_numbers_back(name: str) -> None:
    model, plain = tiny_gpt(), tiny_gpt()
    want = gradients(plain, tokens())
    convert(model, recipe(name)).restore()
    got = gradients(model, tokens())
    assert all(torch.equal(got[k], want[k]) for k in want)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("name", ["bf16", "mxfp8"])
def test_copies_compute_the_same_and_are_their_own(name: str, copier: object) -> None:
    model = tiny_gpt()
    convert(model, recipe(name))
    conversion_of(model).measure_next_step()
    twin = copier(model)
    assert isinstance(twin, TinyGPT)
    assert isinstance(twin.blocks[0], Block)
    assert torch.equal(twin(tokens()), model(tokens()))
    conversion = conversion_of(twin)
    assert conversion is not None
    conversion.restore()
    assert type(twin) is TinyGPT
    assert type(twin.head) is nn.Linear
    assert conversion_of(model) is not None
    assert type(model) is not TinyGPT


def test_first_matching_rule_wins_and_shapes_count() -> None:
    mx, none = LayerPrecision.uniform(parse_cast("mxfp8")), None
    rules = (Rule(match="blocks.0.*", precision=none), Rule(match="*fc?", precision=mx))
    model = tiny_gpt()
    conversion = convert(model, Recipe(name="mine", rules=rules))
    with conversion.measured():
        loss_of(model, tokens()).backward()
    cast = {row.site for row in conversion.audit().rows if row.format == "mxfp8"}
    assert cast == {"blocks.1.fc1", "blocks.1.fc2"}


def test_a_rule_without_a_layer_offers_the_nearest() -> None:
    rules = (Rule(match="blocks.1.mlp.fc2", precision=LayerPrecision.uniform(parse_cast("mxfp8"))),)
    model = tiny_gpt()
    with pytest.raises(ValueError, match=r"matches no layer.*blocks\.1\.fc2"):
        convert(model, Recipe(name="mine", rules=rules))
    assert type(model) is TinyGPT, "nothing may be half-converted"


class OwnLinear(nn.Linear):
    """A user's subclass, which may compute something else."""


def test_a_users_subclass_is_reached_by_the_function_that_it_calls() -> None:
    mixed = nn.Sequential(nn.Linear(4, 4), OwnLinear(4, 4))
    assert isinstance(mixed[1], OwnLinear)
    conversion = convert(mixed, "mxfp8")
    with conversion.measured():
        mixed(torch.randn(2, 4)).sum().backward()
    assert {(row.site, row.format) for row in conversion.audit().rows} == {("0", "mxfp8 rceil"), ("1", "mxfp8 rceil")}
    for model in (mixed, tiny_gpt(), nn.Sequential(nn.MultiheadAttention(4, 1))):
        conversion = conversion_of(model) or convert(model, "mxfp8")
        assert not [note for note in conversion.notes if "no repeated blocks" not in note]
    convert(nn.Sequential(OwnLinear(4, 4)), Recipe(name="own", rules=(
        Rule(type="OwnLinear", precision=LayerPrecision.uniform("mxfp8")),
    )))  # fmt: skip


@quiet_compiler
def test_models_that_cannot_be_converted() -> None:
    with pytest.raises(ValueError, match=r"compiled by torch.compile; the order is"):
        convert(torch.compile(tiny_gpt()), recipe("bf16"))
    in_place = tiny_gpt()
    in_place.blocks[1].compile()
    with pytest.raises(ValueError, match=r"blocks\.1 is compiled by torch.compile; the order is"):
        convert(in_place, recipe("bf16"))
    model = tiny_gpt()
    convert(model, recipe("bf16"))
    with pytest.raises(ValueError, match="converted already"):
        convert(model, recipe("bf16"))
    with pytest.raises(ValueError, match="converted already"):
        convert(nn.Sequential(model), recipe("bf16"))
    with pytest.raises(ValueError, match="wrapped as DataParallel"):
        convert(nn.DataParallel(tiny_gpt()), recipe("bf16"))
    with pytest.raises(ValueError, match=r"unknown recipe 'mxfp9'.*mxfp8"):
        convert(tiny_gpt(), "mxfp9")


def test_engine_asked_for_by_name_is_refused_where_missing() -> None:
    with pytest.raises(ValueError, match=r"engine 'native' got casts mxfp8"):
        convert(tiny_gpt(), recipe("mxfp8", engine="native"))


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", RECIPES)
def test_activation_checkpointing_gives_the_plain_numbers(name: str, reentrant: bool) -> None:
    plain, checkpointed = tiny_gpt(), tiny_gpt(checkpointed=reentrant)
    convert(plain, recipe(name, engine="emulated"))
    convert(checkpointed, recipe(name, engine="emulated"))
    want, got = gradients(plain, tokens()), gradients(checkpointed, tokens())
    assert set(got) == set(want)
    assert all(torch.equal(got[k], want[k]) for k in want)


@quiet_compiler
@pytest.mark.parametrize(("name", "blocks"), [("bf16", 1), ("fp8", 1), ("mxfp8", 1), ("nvfp4", 2)])
def test_compiled_with_aot_eager_is_bit_equal(name: str, blocks: int) -> None:
    """With a second block where the sites of one graph draw random bits, each its own."""
    plain, compiled = tiny_gpt(blocks=blocks), tiny_gpt(blocks=blocks)
    convert(plain, recipe(name, engine="emulated"))
    convert(compiled, recipe(name, engine="emulated"))
    fast = torch.compile(compiled, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        want, got = gradients(plain, tokens()), gradients(fast, tokens())
        assert all(torch.equal(got[f"_orig_mod.{k}" if k != "loss" else k], v) for k, v in want.items())


def test_encoder_layer_in_evaluation_runs_what_training_runs() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True), 1, enable_nested_tensor=False
    )
    conversion = convert(model, recipe("mxfp8"))
    x = torch.randn(2, 8, 32)
    shares = []
    for training in (True, False):
        model.train(training)
        with torch.set_grad_enabled(training), conversion.measured():
            model(x)
        shares.append({row.site for row in conversion.audit().rows if row.covered})
    parts = ("linear1", "linear2", "self_attn", "self_attn.in_proj", "self_attn.out_proj")
    assert shares[0] == shares[1] == {f"layers.0.{part}" for part in parts}


def test_an_accelerator_that_only_emulates_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixprec.nn._resolve.device_of", lambda model: torch.device("mps"))
    with pytest.warns(UserWarning, match=r"mxfp8 on mps: exact numbers, no gain in speed; native here: none"):
        conversion = convert(tiny_gpt(), "mxfp8")
    assert "no gain in speed" in conversion.notes[0]
