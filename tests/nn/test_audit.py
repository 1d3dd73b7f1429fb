"""The audit measures: every GEMM of a step, by site, format and engine."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, recipe

from .models import loss_of, tiny_gpt, tokens


def test_shares_of_a_gpt_step() -> None:
    model = tiny_gpt()
    conversion = convert(model, recipe("mxfp8"))
    with conversion.measured():
        loss_of(model, tokens()).backward()
    audit = conversion.audit()
    block = 3 * 2 * 48 * (32 * 96 + 32 * 32 + 2 * 32 * 128)
    assert sum(row.flops for row in audit.rows if row.format == "mxfp8 rceil") == 2 * block
    assert {row.site for row in audit.rows if row.format == "mxfp8 rceil"} == {
        f"blocks.{i}.{name}" for i in (0, 1) for name in ("attn.qkv", "attn.o", "fc1", "fc2")
    }
    # What no rule gives a cast stays in the compute dtype: the recipe's wish, and named.
    left = {"blocks.0.attn", "blocks.1.attn", "head"}
    assert {(row.site, row.format, row.engine) for row in audit.rows if row.format == "fp32"} == {
        (site, "fp32", "native") for site in left
    }
    assert not audit.uncovered
    assert abs(sum(audit.shares.values()) - 1) < 1e-9
    assert "blocks.0.attn" in str(audit)
    assert "mxfp8 rceil" in str(audit)


def test_16_bit_covers_everything_and_names_the_running_module() -> None:
    model = tiny_gpt()
    conversion = convert(model, recipe("bf16", engine="emulated"))
    with conversion.measured():
        loss_of(model, tokens()).backward()
    audit = conversion.audit()
    assert not audit.uncovered
    assert audit.share("bf16") == 1.0
    attention = [row for row in audit.rows if row.gemm.startswith("attention")]
    assert {(row.site, row.gemm) for row in attention} == {
        (f"blocks.{i}.attn", gemm) for i in (0, 1) for gemm in ("attention", "attention backward")
    }


def test_convolutions_are_counted() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
    conversion = convert(model, recipe("bf16", engine="emulated"))
    with conversion.measured():
        model(torch.randn(2, 3, 6, 6)).sum().backward()
    audit = conversion.audit()
    assert audit.share("bf16") == 1.0
    assert {row.site for row in audit.rows} == {"0", "2"}
    first = 2 * 2 * 36 * 8 * 27
    assert sum(row.flops for row in audit.rows if row.site == "0") == 2 * first  # no gradient of the data


def test_uncovered_products_are_named() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                x = x @ x.t()
            return self.fc(F.pad(x, (0, 0)))

    model = nn.Sequential(Odd())
    conversion = convert(model, recipe("bf16", engine="emulated"))
    with conversion.measured():
        model(torch.randn(16, 16, requires_grad=True)).sum().backward()
    rows = conversion.audit().uncovered
    assert rows[0].site == "0"
    assert rows[0].format == "fp32"
    assert rows[0].engine == "torch"


def test_recomputed_products_are_listed_apart() -> None:
    plain, checkpointed = tiny_gpt(), tiny_gpt(checkpointed=False)
    audits = []
    for model in (plain, checkpointed):
        conversion = convert(model, recipe("mxfp8"))
        with conversion.measured():
            loss_of(model, tokens()).backward()
        audits.append(conversion.audit())
    assert audits[0].share("mxfp8 rceil") == audits[1].share("mxfp8 rceil")
    recomputed = [row for row in audits[1].rows if row.recomputed]
    assert recomputed
    assert {row.gemm for row in recomputed if row.format == "mxfp8 rceil"} == {"fprop"}
    assert {row.site for row in recomputed if row.format == "fp32"} == {"blocks.0.attn", "blocks.1.attn"}
    assert not audits[1].uncovered


def test_buffers_are_told() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    conversion = convert(model, recipe("bf16"))
    assert conversion.audit().kept == {"1.running_mean": "float32", "1.running_var": "float32"}
    assert "no GEMM was measured" in str(conversion.audit())


def test_fp32_is_all_as_asked_and_a_recipe_without_layers_says_so() -> None:
    model = tiny_gpt()
    conversion = convert(model, recipe("fp32"))
    with conversion.measured():
        loss_of(model, tokens()).backward()
    assert not conversion.audit().uncovered
    assert conversion.audit().share("fp32") == 1.0
    assert "gave no layer" in convert(nn.Sequential(nn.LSTM(3, 4)), recipe("mxfp8")).notes[0]
    for reached in (nn.Conv2d(3, 4, 3), nn.Linear(3, 4), Scaled()):
        assert not any("gave no layer" in note for note in convert(nn.Sequential(reached), recipe("mxfp8")).notes)


class Scaled(nn.Module):
    """A layer of a user's own, which calls a function with its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Square(torch.autograd.Function):
    """A user's own function whose backward pass multiplies matrices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] @ x.t() + x.t() @ grads[0]


class Opaque(nn.Module):
    """Products in fp32 that a recipe with rules does not reach, before and after modules that return their input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.nothing = nn.ModuleDict({"deeper": nn.Sequential(nn.Dropout(0.0), nn.Identity())})

    def forward(self, x: Tensor) -> Tensor:
        y = self.nothing["deeper"](self.first(x) @ x)
        return self.last(self.nothing["deeper"](y) @ y)


def test_backward_products_are_told_by_the_module_of_their_forward() -> None:
    model = nn.Sequential(nn.Linear(8, 8), Opaque())
    conversion = convert(
        model, Recipe(name="mine", rules=(Rule(match="0", precision=LayerPrecision.uniform("mxfp8")),))
    )
    with conversion.measured():
        model(torch.randn(8, 8, requires_grad=True)).sum().backward()
    sites: dict[str, int] = {}
    for row in conversion.audit().rows:
        sites[row.site] = sites.get(row.site, 0) + row.flops
    gemm = 2 * 8**3
    assert sites == {"0": 3 * gemm, "1": 6 * gemm, "1.first": 3 * gemm, "1.last": 3 * gemm}


def test_backward_products_of_an_unknown_origin_are_the_models() -> None:
    model = nn.Sequential(nn.Linear(8, 8), Opaque())
    conversion = convert(model, "mxfp8")
    model.register_forward_hook(lambda module, args, output: Square.apply(output))
    with conversion.measured():
        y = model(torch.randn(8, 8))
        for p in model.parameters():
            p.register_hook(lambda grad: grad @ torch.eye(8) if grad.dim() == 2 else grad)
        y.sum().backward()
    assert "<model>" in {row.site for row in conversion.audit().uncovered}
