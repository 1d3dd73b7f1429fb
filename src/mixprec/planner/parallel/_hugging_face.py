"""From a Hugging Face ``config.json`` to a transformer's shape: the model is built on the meta device and counted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ._shape import TransformerShape

_INSTALL = "{}: a Hugging Face config needs the package transformers: python -m pip install transformers"
_EMBEDDING = re.compile(r"(^|\.)(embed_tokens|wte|wpe|embed_in|word_embeddings)\.")
_HEAD = re.compile(r"(^|\.)(lm_head|embed_out)\.")
_EXPERT = re.compile(r"\.experts\.")


def shape_of_config(path: str | Path) -> TransformerShape:
    """Read a causal language model's configuration.

    Its parameters are counted on a model without memory (torch's meta device), so that they are exact and a trillion of
    them takes a second.

    Args:
        path: of a ``config.json``.

    Raises:
        ValueError: no file of JSON, no causal language model that transformers knows, or transformers is missing.
        OSError: the file cannot be read.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: expected the JSON of a Hugging Face config: {error}") from error
    if not isinstance(values, dict) or "model_type" not in values:
        raise ValueError(f"{path}: has no 'model_type': expected the config.json of a Hugging Face model")
    config, counts = _count(path, values)
    return _shape(config, counts, values)


def _count(path: str | Path, values: Mapping[str, Any]) -> tuple[Any, dict[str, int]]:
    try:
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise ValueError(_INSTALL.format(path)) from error
    factory: Any = AutoModelForCausalLM
    try:
        config: Any = AutoConfig.for_model(**values)
        with torch.device("meta"):
            model = factory.from_config(config)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: transformers makes no causal language model of it: {error}") from error
    counts: dict[str, int] = dict.fromkeys(("embedding", "head", "layer", "expert"), 0)
    for name, parameter in model.named_parameters():
        counts[_kind(name)] += parameter.numel()
    return config.get_text_config(), counts


def _kind(name: str) -> str:
    if _EMBEDDING.search(name):
        return "embedding"
    if _HEAD.search(name):
        return "head"
    return "expert" if _EXPERT.search(name) else "layer"


def _shape(config: Any, counts: Mapping[str, int], values: Mapping[str, Any]) -> TransformerShape:
    def first(*names: str, default: Any = 0) -> Any:
        return next((v for name in names if (v := getattr(config, name, None)) is not None), default)

    hidden, heads = first("hidden_size"), first("num_attention_heads")
    experts = first("n_routed_experts", "num_local_experts", "num_experts") if counts["expert"] else 0
    feed_forward = first("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden) or 4 * hidden
    wide = first("moe_intermediate_size", default=feed_forward) if experts else 0
    shared = first("shared_expert_intermediate_size", default=wide * first("n_shared_experts")) if experts else 0
    layers = first("num_hidden_layers")
    return TransformerShape(
        name=str(values["model_type"]),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=first("num_key_value_heads", default=heads),
        head_dim=first("v_head_dim", "head_dim", default=hidden // heads),
        feed_forward=feed_forward,
        is_gated=first("hidden_act", "activation_function", default="silu") in ("silu", "swish", "gelu_pytorch_tanh"),
        vocabulary=first("vocab_size"),
        experts=experts,
        experts_per_token=first("num_experts_per_tok", "num_experts_per_token") if experts else 0,
        expert_feed_forward=wide,
        shared_feed_forward=shared,
        dense_layers=first("first_k_dense_replace") if experts else layers,
        **counts,
    )
