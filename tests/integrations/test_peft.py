"""LoRA on a converted Llama: the frozen base in few bits, its adapters wide, and both named."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import mixprec

from .models import batch, build, distance, step

peft = pytest.importorskip("peft")
TARGETS = ("q_proj", "v_proj", "down_proj")
NEAR = {"bf16": 0.03, "mxfp8": 0.15, "nvfp4": 0.5}


def adapted() -> Any:
    model = build("llama")
    torch.manual_seed(1)
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=list(TARGETS), init_lora_weights=False))
    return model.train()


@pytest.mark.filterwarnings("ignore")  # the library's own, about versions of others
@pytest.mark.parametrize("name", NEAR)
def test_adapters_train_beside_a_low_base(name: str) -> None:
    plain, model = adapted(), adapted()
    plain.load_state_dict(model.state_dict())
    _, want = step(plain, batch("llama"))
    conversion = mixprec.convert(model, mixprec.recipe(name, engine="emulated"))
    with conversion.measured():
        _, got = step(model, batch("llama"))
    assert distance(got, want) < NEAR[name]
    assert all("lora" in n for n in got)
    audit = conversion.audit()
    assert not audit.uncovered
    adapters = {row.site for row in audit.rows if ".lora_" in row.site}
    assert len(adapters) == 2 * 2 * len(TARGETS)
    wide = "bf16" if name == "bf16" else "fp32"
    assert {row.format for row in audit.rows if row.site in adapters} == {wide}
    assert not any(row.gemm == "wgrad" for row in audit.rows if row.site.endswith("base_layer"))
    if name != "bf16":
        (note,) = conversion.notes
        assert "lora_A.default and 11 more left as they are: an adapter of peft" in note
    conversion.restore()
    _, back = step(model, batch("llama"))
    assert all(torch.equal(back[n], w) for n, w in want.items())
