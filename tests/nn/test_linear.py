"""The three GEMMs of a linear map: which values they multiply, how often they round."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec import kernels
from mixprec.nn import convert
from mixprec.specs import LayerPrecision, Recipe, Rule, parse_cast, recipe


def run(model: nn.Module, x: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Output and gradients of a layer named ``0``."""
    x = x.clone().requires_grad_()
    y = model(x)
    y.backward(grad)
    layer = model[0]
    return y.detach(), x.grad, layer.weight.grad, None if layer.bias is None else layer.bias.grad


def layer(k: int, n: int, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(k, n, bias=bias))


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
@pytest.mark.parametrize("bias", [True, False])
def test_16_bit_operands_are_exact_and_sums_are_rounded_once(name: str, dtype: torch.dtype, bias: bool) -> None:
    model = layer(40, 24, bias)
    x, grad = torch.randn(10, 40), torch.randn(10, 24)
    w, b = model[0].weight.detach(), model[0].bias
    convert(model, recipe(name, engine="emulated"))
    y, dx, dw, db = run(model, x, grad)

    def r(t: Tensor) -> Tensor:
        return t.to(dtype).float()

    expected = r(x) @ r(w).t() if b is None else torch.addmm(r(b.detach()), r(x), r(w).t())
    assert torch.equal(y, r(expected))
    assert torch.equal(dx, r(r(grad) @ r(w)))
    assert torch.equal(dw, r(grad).t() @ r(x))  # the weight's gradient is not rounded
    if db is not None:
        assert torch.equal(db, r(grad).sum(0))


@pytest.mark.parametrize("name", ["fp8", "mxfp8", "mxfp4"])
@pytest.mark.parametrize("shape", [(64, 96, 32), (5, 767, 10), (1, 1, 1), (33, 50, 17)])
def test_every_operand_is_cast_along_its_own_reduction(name: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    model = layer(k, n)
    x, grad = torch.randn(m, k), torch.randn(m, n)
    w, b = model[0].weight.detach(), model[0].bias.detach()
    chosen = recipe(name)
    precision = next(r.precision for r in chosen.rules if r.precision is not None)
    convert(model, chosen)
    y, dx, dw, db = run(model, x, grad)

    def q(t: Tensor, cast: object) -> Tensor:
        carrier, outer = kernels.scaled(t, str(cast), axis=1)
        return carrier.double() * outer.double()

    fprop = q(x, precision.fprop_input) @ q(w, precision.fprop_weight).t() + b
    dgrad = q(grad, precision.dgrad_grad_output) @ q(w.t(), precision.dgrad_weight).t()
    wgrad = q(grad.t(), precision.wgrad_grad_output) @ q(x.t(), precision.wgrad_input).t()
    for got, want in ((y, fprop), (dx, dgrad), (dw, wgrad)):
        torch.testing.assert_close(got, want.float(), rtol=1e-5, atol=1e-5 * float(want.abs().max()))
    torch.testing.assert_close(db, grad.sum(0))


def test_casts_left_out_keep_the_compute_dtype() -> None:
    precision = LayerPrecision.of(input=parse_cast("mxfp8"), weight=parse_cast("mxfp8"), grad_output=None)
    model = layer(64, 32, bias=False)
    x, grad = torch.randn(16, 64), torch.randn(16, 32)
    w = model[0].weight.detach()
    convert(model, Recipe(name="half", rules=(Rule(match="*", precision=precision),)))
    _, dx, _, _ = run(model, x, grad)
    carrier, _ = kernels.scaled(w, "mxfp8", axis=0)
    torch.testing.assert_close(dx, grad @ carrier)


def test_nvfp4_transforms_both_operands_of_wgrad_alike() -> None:
    model = layer(64, 32, bias=False)
    x, grad = torch.randn(48, 64), torch.randn(48, 32)
    convert(model, recipe("nvfp4"))
    _, _, dw, _ = run(model, x, grad)
    exact = grad.t() @ x
    error = (dw - exact).norm() / exact.norm()
    assert 0.02 < error < 0.35  # rounded to 4 bits, yet the transform cancels


def test_stochastic_gradients_differ_by_step_and_repeat_by_seed() -> None:
    x, grad = torch.randn(32, 64), torch.randn(32, 32)

    def weight_gradients(seed: int) -> list[Tensor]:
        model = layer(64, 32, bias=False)
        convert(model, recipe("nvfp4"), seed=seed)
        found = []
        for _ in range(2):
            model.zero_grad()
            found.append(run(model, x, grad)[2].clone())
        return found

    first, second = weight_gradients(0)
    assert not torch.equal(first, second)
    assert torch.equal(first, weight_gradients(0)[0])
    assert not torch.equal(first, weight_gradients(1)[0])


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp8", "mxfp8", "nvfp4"])
def test_odd_inputs(name: str) -> None:
    """Empty batches, more dimensions, non-contiguous input, frozen weights, inputs without gradient."""
    model = layer(32, 16)
    convert(model, recipe(name))
    assert model(torch.zeros(0, 32)).shape == (0, 16)
    y = model(torch.randn(2, 3, 4, 32))
    assert y.shape == (2, 3, 4, 16)
    assert y.dtype == torch.float32
    x = torch.randn(32, 6).t()
    torch.testing.assert_close(model(x), model(x.contiguous()), rtol=0, atol=0)
    model(x).sum().backward()
    assert model[0].weight.grad is not None
    model.requires_grad_(False)
    x = x.clone().requires_grad_()
    model(x).sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    with torch.no_grad():
        assert model(x).grad_fn is None


def test_native_fp8_equals_the_emulation_up_to_summation_order() -> None:
    x, grad = torch.randn(32, 64), torch.randn(32, 48)
    results = []
    for engine in ("native", "emulated"):
        model = layer(64, 48)
        conversion = convert(model, recipe("fp8", engine=engine))
        with conversion.measured():
            y, *rest = run(model, x, grad)
        assert conversion.audit().engines.get(engine, 0.0) > 0.3
        results.append((y, *rest))
    for native, emulated in zip(*results, strict=True):
        torch.testing.assert_close(native, emulated, rtol=1e-5, atol=1e-5 * float(emulated.abs().max()))


def test_lower_matmul_precision_outside_does_not_round_the_carriers() -> None:
    x = torch.randn(64, 512)
    model = layer(512, 64)
    convert(model, recipe("mxfp8"))
    want = model(x)
    torch.set_float32_matmul_precision("medium")
    try:
        got = model(x)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.equal(got, want)


def test_saturation_is_not_wraparound() -> None:
    model = layer(32, 8, bias=False)
    convert(model, recipe("fp8"))
    x = torch.zeros(4, 32)
    x[0, 0] = 1e30
    assert torch.isfinite(model(x)).all()
    x[0, 0] = float("inf")
    assert not torch.isfinite(model(x)).any(), "a fault must show, not saturate silently"


def test_bias_follows_autocast() -> None:
    model = layer(16, 8)
    x = torch.randn(4, 16)
    w, b = model[0].weight.detach(), model[0].bias.detach()
    with torch.autocast("cpu", torch.bfloat16):
        stock = F.linear(x, w, b)
    convert(model, recipe("bf16"))
    torch.testing.assert_close(model(x), stock.float(), rtol=2**-7, atol=1e-2)
