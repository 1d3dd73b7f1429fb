"""Tiny Hugging Face models with random weights, and a batch for each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

transformers = pytest.importorskip("transformers")

_TRUNK: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_TOKENS: dict[str, Any] = {"vocab_size": 50, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_HEADS: dict[str, Any] = {"num_key_value_heads": 2, "max_position_embeddings": 32}
_UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

CONFIGS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {**_TOKENS, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
         "attn_pdrop": 0.0, "loss_type": "ForCausalLM"},
    ),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_TOKENS, **_TRUNK, "num_key_value_heads": 2, "max_position_embeddings": 32},
    ),
    "bert": (
        "BertForSequenceClassification",
        "BertConfig",
        {**_TRUNK, **_UNDROPPED, "vocab_size": 50, "max_position_embeddings": 32, "num_labels": 3},
    ),
    "vit": (
        "ViTForImageClassification",
        "ViTConfig",
        {**_TRUNK, **_UNDROPPED, "image_size": 16, "patch_size": 4, "num_labels": 3},
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 2], "layer_type": "bottleneck", "num_labels": 3},
    ),
    "mixtral": (
        "MixtralForCausalLM",
        "MixtralConfig",
        {**_TOKENS, **_TRUNK, **_HEADS, "num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "qwen2-moe": (
        "Qwen2MoeForCausalLM",
        "Qwen2MoeConfig",
        {**_TOKENS, **_TRUNK, **_HEADS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
         "shared_expert_intermediate_size": 24},
    ),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        {**_TOKENS, **_TRUNK, **_HEADS, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
         "head_dim": 8},
    ),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
         "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1},
    ),
}  # fmt: skip


def build(kind: str, attention: str = "sdpa", **options: Any) -> Any:
    """A model of this kind with the weights of seed 0, in training mode."""
    model, config, settings = CONFIGS[kind]
    torch.manual_seed(0)
    if kind != "resnet":
        settings = {**settings, "attn_implementation": attention}
    made = getattr(transformers, config)(**{**settings, **options})
    return getattr(transformers, model)(made).train()


def batch(kind: str) -> dict[str, Tensor]:
    """Two examples; padded on the left for Llama, on the right for the others."""
    generator = torch.Generator().manual_seed(3)
    if kind == "resnet":
        return {"pixel_values": torch.randn(2, 3, 32, 32, generator=generator), "labels": torch.tensor([0, 2])}
    if kind == "vit":
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=generator), "labels": torch.tensor([0, 2])}
    tokens = torch.randint(2, 50, (2, 12), generator=generator)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0 if kind == "llama" else 1
    mask[1, 8:] = 1 if kind == "llama" else 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    if kind == "bert":
        return {**inputs, "token_type_ids": (tokens > 25).long(), "labels": torch.tensor([0, 2])}
    if kind == "t5":
        return {**inputs, "labels": tokens[:, :6].contiguous()}
    return {**inputs, "labels": tokens.masked_fill(mask == 0, -100)}


def checkpoint(model: Any, *, reentrant: bool) -> None:
    """Turn on the recomputation of every block, under the name that this version of the library has for it."""
    options = {"use_reentrant": reentrant}
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable(activation_checkpointing_kwargs=options)
    else:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)


def step(model: Any, inputs: dict[str, Tensor]) -> tuple[Any, dict[str, Tensor]]:
    """The outputs and gradients of one training step."""
    model.zero_grad()
    outputs = model(**inputs)
    outputs.loss.backward()
    return outputs, {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def distance(got: dict[str, Tensor], want: dict[str, Tensor]) -> float:
    """Relative distance of all gradients together."""
    assert set(got) == set(want)
    error = sum(float((got[n] - w).double().square().sum()) for n, w in want.items())
    return (error / sum(float(w.double().square().sum()) for w in want.values())) ** 0.5
