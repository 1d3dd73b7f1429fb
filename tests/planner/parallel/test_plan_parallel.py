"""A Llama of 70 billion parameters and a mixture of a trillion, against sums by hand."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mixprec.hardware import Figure, Hardware
from mixprec.planner import Parallelism, TransformerShape, plan_parallel, shape_of_config
from mixprec.specs import load_recipe

LLAMA = {
    "model_type": "llama",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
MIXTURE = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "vocab_size": 163840,
    "n_routed_experts": 384,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
}
#: Round figures, so that sums can be done in the head.
DEVICE = Hardware(
    name="round",
    title="A device of round figures",
    kind="gpu",
    memory=Figure(80e9, "made up"),
    bandwidth=Figure(1e12, "made up"),
    rates={"bf16": Figure(1e15, "made up"), "fp8": Figure(2e15, "made up")},
    attainable={"bf16": Figure(0.5, "made up"), "fp8": Figure(0.5, "made up")},
    block_formats=("mxfp8",),
    link=Figure(1e11, "made up"),
    network=Figure(1e10, "made up"),
)


def config(folder: Path, values: dict[str, object]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.fixture
def llama() -> TransformerShape:
    layer = 80 * (2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 28672 * 8192 + 2 * 8192) + 8192
    return TransformerShape(
        name="llama",
        layers=80,
        hidden=8192,
        heads=64,
        kv_heads=8,
        head_dim=128,
        feed_forward=28672,
        vocabulary=128256,
        dense_layers=80,
        embedding=128256 * 8192,
        head=128256 * 8192,
        layer=layer,
    )


def test_a_config_is_counted_on_the_meta_device(tmp_path: Path, llama: TransformerShape) -> None:
    pytest.importorskip("transformers")
    found = shape_of_config(config(tmp_path, LLAMA))
    assert found == llama
    assert found.parameters == 70_553_706_496  # Llama 3 70B


def test_a_trillion_parameters_in_seconds(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = config(tmp_path, MIXTURE)
    shape_of_config(path)  # imports transformers
    start = time.perf_counter()
    shape = shape_of_config(path)
    layout = Parallelism(data=64, pipeline=16, expert=64, sharding="optimizer", checkpointing=True, micro_batches=32)
    plan = plan_parallel(shape, layout, "bf16", DEVICE, sequence=4096)
    assert time.perf_counter() - start < 5
    assert shape.expert == 60 * 384 * 3 * 7168 * 2048
    assert shape.parameters == pytest.approx(1.026e12, rel=1e-3)
    assert shape.active == pytest.approx(shape.layer + 60 * 8 * 3 * 7168 * 2048 + 163840 * 7168)
    # Four layers of a stage: experts over 64 ranks; the rest whole, its optimizer's state over 64.
    experts, others = shape.expert * 4 / 61 / 64, shape.layer * 4 / 61 + 163840 * 7168
    assert plan.memory["weights"] == pytest.approx(4 * (experts + others))
    assert plan.memory["moments"] == pytest.approx(8 * (experts + others / 64))


def test_memory_of_fully_sharded_data(llama: TransformerShape) -> None:
    plan = plan_parallel(
        llama, Parallelism(data=64, sharding="weights", checkpointing=True), "bf16", DEVICE, sequence=8192
    )
    n = llama.parameters / 64
    assert plan.memory["weights"] == plan.memory["gradients"] == round(4 * n)
    assert plan.memory["moments"] == round(8 * n)
    assert plan.memory["gathered weights"] == round(2 * 2 * llama.layer / 80)
    assert plan.memory["saved activations"] == 80 * 8192 * 8192 * 4  # each layer's input, in fp32
    assert plan.memory["logits"] == 2 * 4 * 8192 * 128256


def test_activations_of_a_layer_by_hand(llama: TransformerShape) -> None:
    plan = plan_parallel(llama, Parallelism(), "bf16", DEVICE, sequence=100)
    norms = 2 * (4 + 2) * 8192
    attention = 2 * (8192 + 2 * 1024) + 2 * 8192 + 4 * 64  # queries, keys, values; output; one number of each row
    inner = 2 * 4 * 28672  # gate, its activation, the other half, their product
    assert plan.memory["saved activations"] == 80 * 100 * (norms + attention + inner)
    tensor = plan_parallel(llama, Parallelism(tensor=4), "bf16", DEVICE, sequence=100)
    assert tensor.memory["saved activations"] == 20 * 100 * (norms + attention + inner)
    codes = plan_parallel(
        llama, Parallelism(), replace(load_recipe("mxfp8"), compute_dtype="bf16"), DEVICE, sequence=100
    )
    fewer = (2 - 1.03125) * (2 * 8192 + 28672) - 1.03125 * 8192  # attention keeps its output, and its codes
    assert codes.memory["saved activations"] == 80 * 100 * (norms + attention + inner - fewer)


def test_time_of_computation_and_collectives(llama: TransformerShape) -> None:
    layout = Parallelism(data=4, tensor=8, pipeline=4, micro_batches=16)
    plan = plan_parallel(llama, layout, "bf16", DEVICE, sequence=8192)
    terms = {term.name: term for term in plan.terms}
    tokens = 8192 * 4 * 16
    flops = 6 * (llama.layer + llama.head) * tokens + 6 * tokens * 8192 * 8192 * 80
    assert plan.flops == flops
    compute = flops / 128 / 0.5e15
    assert terms["computation"].seconds == pytest.approx(compute)
    assert terms["pipeline bubble"].seconds == pytest.approx(3 / 16 * compute)
    all_reduce = 2 * 7 / 8 * 8192 * 8192 * 2
    assert terms["tensor parallelism"].bytes == pytest.approx(4 * 20 * 16 * all_reduce)
    assert terms["tensor parallelism"].seconds == pytest.approx(4 * 20 * 16 * all_reduce / 1e11)
    local = (llama.layer / 4 + llama.head) / 8
    assert terms["data parallelism"].bytes == pytest.approx(2 * 3 / 4 * 4 * local)
    assert terms["data parallelism"].bound == "network"  # its ranks are eight devices apart
    assert terms["pipeline parallelism"].bytes == pytest.approx(2 * 16 * 8192 / 8 * 8192 * 4)
    assert plan.seconds == pytest.approx(sum(term.exposed for term in plan.terms))


def test_sharding_takes_three_times_the_weights_or_less(llama: TransformerShape) -> None:
    def sent(sharding: str) -> float:
        layout = Parallelism(data=8, sharding=sharding)  # pyright: ignore[reportArgumentType]
        plan = plan_parallel(llama, layout, "bf16-true", DEVICE, sequence=1024)
        return next(t.bytes for t in plan.terms if t.name == "data parallelism")

    volume = 7 / 8 * 2 * llama.parameters
    assert sent("none") == sent("optimizer") == sent("gradients") == pytest.approx(2 * volume)
    assert sent("weights") == pytest.approx(3 * volume)  # ZeRO, section 7: 1.5 times


def test_experts_send_tokens_both_ways(llama: TransformerShape) -> None:
    mixture = TransformerShape(
        name="mixture", layers=4, hidden=1024, heads=8, kv_heads=8, head_dim=128, feed_forward=4096, vocabulary=1000,
        experts=16, experts_per_token=2, expert_feed_forward=512, dense_layers=0, embedding=1_024_000, head=1_024_000,
        layer=4 * 4 * 1024 * 1024, expert=4 * 16 * 3 * 1024 * 512,
    )  # fmt: skip
    plan = plan_parallel(mixture, Parallelism(data=8, expert=8), "bf16", DEVICE, sequence=100)
    term = next(t for t in plan.terms if t.name == "expert parallelism")
    assert term.bytes == pytest.approx(4 * 4 * 7 / 8 * 100 * 2 * 1024 * 2)
    whole = plan_parallel(mixture, Parallelism(data=8), "bf16", DEVICE, sequence=100)
    assert plan.memory["weights"] < whole.memory["weights"] / 2


def test_says_that_nothing_was_measured(llama: TransformerShape) -> None:
    assert "not validated" in plan_parallel(llama, Parallelism(), "bf16", DEVICE, sequence=8).notes[0]


def test_formats_that_the_device_lacks(llama: TransformerShape) -> None:
    with pytest.raises(ValueError, match=r"round does not multiply nvfp4 natively \(it has bf16, fp8, mxfp8\)"):
        plan_parallel(llama, Parallelism(), "nvfp4", DEVICE, sequence=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": 0}, "data is 0, expected a whole number"),
        ({"data": 4, "expert": 3}, "3 expert ranks among 4 data ranks"),
        ({"sharding": "all"}, "sharding is 'all', expected one of none, optimizer, gradients, weights"),
    ],
)
def test_layouts_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Parallelism(**options)  # pyright: ignore[reportArgumentType]


def test_more_stages_than_layers(llama: TransformerShape) -> None:
    with pytest.raises(ValueError, match="81 stages of 80 layers"):
        plan_parallel(llama, Parallelism(pipeline=81), "bf16", DEVICE, sequence=8)


@pytest.mark.parametrize(("text", "message"), [("{", "expected the JSON"), ("{}", "has no 'model_type'")])
def test_files_that_are_no_config(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        shape_of_config(path)
