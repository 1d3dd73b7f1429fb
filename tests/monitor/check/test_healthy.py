"""No false alarms: models that train well under these recipes give nothing, or what is known to be true of them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.compare import load_workload
from mixprec.monitor import check_step
from mixprec.training import prepare
from tests.monitor.check.small_models import SMALL

transformers = pytest.importorskip("transformers")

RECIPES = ("fp32", "bf16", "fp16", "fp8", "fp8-delayed", "mxfp8", "nvfp4")
IDS = torch.randint(0, 64, (2, 16), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones_like(IDS)
PADDED[0, 12:] = 0


def gpt2(attention: str) -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1,
        attn_implementation=attention,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def bert(attention: str) -> nn.Module:
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=32, attn_implementation=attention,
    )  # fmt: skip
    return transformers.BertForMaskedLM(config)


def llama(attention: str) -> nn.Module:
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
        intermediate_size=64, max_position_embeddings=4096, attn_implementation=attention,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


class Translation(nn.Module):
    """torch's own transformer, with a causal mask and padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)
        self.transformer = nn.Transformer(32, 2, 2, 2, 64, batch_first=True)

    def forward(self, ids: Tensor, padded: Tensor) -> Tensor:
        x = self.embed(ids)
        causal = nn.Transformer.generate_square_subsequent_mask(ids.shape[1]).isinf()
        padding = padded == 0
        return self.head(
            self.transformer(x, x, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)
        )


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(64, 32), nn.LSTM(32, 32, batch_first=True), nn.Linear(32, 64)

    def forward(self, ids: Tensor, padded: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(ids))[0])


def hugging_face_loss(model: nn.Module) -> Tensor:
    return model(input_ids=IDS, attention_mask=PADDED, labels=IDS).loss


def own_loss(model: nn.Module) -> Tensor:
    return F.cross_entropy(model(IDS, PADDED).flatten(0, 1).float(), IDS.flatten())


Made = tuple[Callable[[], nn.Module], Callable[[nn.Module], Tensor]]
MODELS: dict[str, Made] = {
    **{
        f"{make.__name__} {attention}": (lambda make=make, attention=attention: make(attention), hugging_face_loss)
        for make in (gpt2, bert, llama)
        for attention in ("eager", "sdpa")
    },
    "transformer": (Translation, own_loss),
    "lstm": (Recurrent, own_loss),
}


@pytest.mark.parametrize("recipe", [*RECIPES, "bf16-true", "bf16-sr"])
@pytest.mark.parametrize("name", ["gpt", "resnet"])
def test_built_in_workloads(name: str, recipe: str) -> None:
    workload = load_workload(name, steps=10).build(0, "cpu")
    model = copy.deepcopy(workload.model)
    session = prepare(model, workload.optimizer(model.parameters()), recipe, clip_norm=workload.clip_norm)
    found = session.check(lambda: workload.loss(model, workload.batches(0)))
    assert len(found) == 0, found


@pytest.mark.parametrize("make", SMALL, ids=lambda make: make.__name__)
def test_small_models_of_many_kinds(make: Callable[[], nn.Module]) -> None:
    for recipe in ("fp32", "bf16", "bf16-true", "fp16", "fp8", "mxfp8"):
        torch.manual_seed(0)
        model = make()
        # 16-bit weights are moved by updates that they can hold.
        rate = 3e-2 if recipe == "bf16-true" else 1e-3
        found = prepare(model, torch.optim.AdamW(model.parameters(), lr=rate), recipe).check(model)
        assert [f for f in found if f.severity != "note"] == [], (recipe, found)
        ordinary = {"rule that does less than it says", "size that blocks do not divide", "constant that vanishes"}
        assert {f.name for f in found} <= ordinary, (recipe, found)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", MODELS)
def test_models_under_recipes(name: str, recipe: str) -> None:
    assert_healthy(name, recipe)


@pytest.mark.parametrize("recipe", ["fp16", "nvfp4"])
@pytest.mark.parametrize("name", ["bert eager", "llama sdpa", "transformer", "lstm"])
def test_some_models_under_recipes(name: str, recipe: str) -> None:
    assert_healthy(name, recipe)


def assert_healthy(name: str, recipe: str) -> None:
    torch.manual_seed(0)
    make, loss = MODELS[name]
    model = make().train()
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3), recipe)
    found = session.check(lambda: loss(model))
    assert [f for f in found if f.severity != "note"] == [], found


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])  # whose autocast depends on the CPU
def test_models_under_stock_autocast(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, loss = MODELS[name]
    model = make().train()

    def step() -> Tensor:
        with torch.autocast("cpu", dtype):
            return loss(model)

    scale = 1024.0 if dtype == torch.float16 else 1.0
    found = check_step(model, step, torch.optim.AdamW(model.parameters(), lr=1e-3), loss_scale=scale)
    assert len(found) == 0, found


@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])
def test_pure_bf16_models_have_norms_that_cannot_move_and_nothing_else(name: str) -> None:
    torch.manual_seed(0)
    make, loss = MODELS[name]
    model = make().train().bfloat16()
    found = check_step(model, lambda: loss(model).float(), torch.optim.AdamW(model.parameters(), lr=1e-3))
    assert {f.name for f in found} == {"update too small"}, found
    assert any("norm" in f.site.lower() or "ln_" in f.site for f in found.faults)
