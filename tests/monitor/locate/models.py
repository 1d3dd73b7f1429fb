"""Four small models, with a batch, a loss and the modules that faults are planted behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.compare.workloads.gpt import GPT, GPTConfig
from mixprec.compare.workloads.resnet import ResNet


@dataclass(frozen=True)
class Subject:
    """A model in training.

    Attributes:
        model: with random weights.
        inputs: what it is called with.
        loss: of its output.
        places: paths of modules with one floating-point output.
    """

    model: nn.Module
    inputs: tuple[Tensor, ...]
    loss: Callable[[object], Tensor]
    places: tuple[str, ...]


class Reader(nn.Module):
    """An LSTM between two linears: [batch, time, 6] to [batch, 5]."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(6, 12)
        self.lstm = nn.LSTM(12, 12, batch_first=True)
        self.norm = nn.LayerNorm(12)
        self.outward = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        h, _ = self.lstm(torch.tanh(self.inward(x)))
        return self.outward(self.norm(h[:, -1]))


def gpt(seed: int) -> Subject:
    torch.manual_seed(seed)
    model = GPT(vocabulary=20, config=GPTConfig(width=16, layers=2, heads=2, context=8))
    ids = torch.randint(0, 20, (2, 9))
    blocks = [f"blocks.{i}.{part}" for i in range(2) for part in ("norm1", "attn", "attn.qkv", "mlp.fc1", "mlp.fc2")]
    return Subject(
        model,
        (ids[:, :-1],),
        lambda out: F.cross_entropy(out.float().flatten(0, 1), ids[:, 1:].flatten()),
        (*blocks, "tokens", "norm"),
    )


def resnet(seed: int) -> Subject:
    torch.manual_seed(seed)
    model = ResNet((4, 6))
    x, y = torch.rand(4, 1, 8, 8), torch.randint(0, 10, (4,))
    places = tuple(
        name for name, m in model.named_modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d) and "short" not in name
    )
    return Subject(model, (x,), lambda out: F.cross_entropy(out.float(), y), places)


def lstm(seed: int) -> Subject:
    torch.manual_seed(seed)
    x, y = torch.randn(3, 5, 6), torch.randint(0, 5, (3,))
    return Subject(Reader(), (x,), lambda out: F.cross_entropy(out.float(), y), ("inward", "norm", "outward"))


def hugging_face(seed: int) -> Subject:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=20,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=16,
        use_cache=False,
    )
    ids = torch.randint(0, 20, (2, 9))
    layers = [
        f"model.layers.{i}.{part}"
        for i in range(2)
        for part in ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj", "mlp.up_proj", "input_layernorm", "mlp")
    ]
    return Subject(
        LlamaForCausalLM(config),
        (ids[:, :-1],),
        lambda out: F.cross_entropy(out.logits.float().flatten(0, 1), ids[:, 1:].flatten()),
        (*layers, "model.norm"),
    )


SUBJECTS: dict[str, Callable[[int], Subject]] = {"gpt": gpt, "resnet": resnet, "lstm": lstm, "hf": hugging_face}
