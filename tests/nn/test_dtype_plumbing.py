"""What user code does with tensors whose dtype a recipe changed under it: each call gives what it gives in fp32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import recipe

Function = Callable[[Tensor], Tensor]
FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16}
ROWS = torch.tensor([0, 2, 3, 1])
COLUMNS = ROWS[:, None].expand(4, 8)
WHOLE = torch.ones(4, 8, dtype=torch.bool)


class Calls(nn.Module):
    """A linear layer, whose output has the compute dtype, and a function of it."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 8)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.fc(x))


def inputs() -> Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


def run(function: Function, name: str | None) -> tuple[Tensor, Tensor | None]:
    """Output and weight gradient, of the plain model where ``name`` is ``None``."""
    model = Calls(function)
    if name is not None:
        convert(model, recipe(name, engine="emulated"))
    y = model(inputs())
    if y.requires_grad:
        (y.abs() if y.is_complex() else y).sum().backward()
    return y.detach(), model.fc.weight.grad


def check(function: Function, name: str) -> None:
    (want, want_grad), (got, grad) = run(function, None), run(function, name)
    step = 2.0**-6 if name == "bf16" else 2.0**-8
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=2 * step, atol=step * max(1.0, float(want.abs().max())))
    if want_grad is not None:
        assert grad is not None
        torch.testing.assert_close(grad, want_grad, rtol=4 * step, atol=2 * step * float(want_grad.abs().max()))


def zeros() -> Tensor:
    return torch.zeros(6, 8)


def put_item(y: Tensor) -> Tensor:
    buffer = zeros()
    buffer[ROWS] = y
    return buffer


def put_masked_item(y: Tensor) -> Tensor:
    buffer = zeros()
    buffer[torch.tensor([True, False, True, False, False, False])] = y[:2]
    return buffer


def put_into_16_bits(y: Tensor) -> Tensor:
    buffer = y.new_zeros(4, 8)
    buffer[ROWS] = inputs()
    return buffer + y


# A 16-bit value into an fp32 buffer.
INTO_FP32: dict[str, Function] = {
    "buffer[rows] = y": put_item,
    "buffer[mask] = y": put_masked_item,
    "new_zeros[rows] = x": put_into_16_bits,
    "index_put": lambda y: zeros().index_put((ROWS,), y),
    "index_put_": lambda y: zeros().index_put_((ROWS,), y, accumulate=True),
    "scatter": lambda y: zeros().scatter(0, COLUMNS, y),
    "scatter_": lambda y: zeros().scatter_(0, COLUMNS, src=y),
    "scatter_add": lambda y: zeros().scatter_add(0, COLUMNS, y),
    "scatter_add_": lambda y: zeros().scatter_add_(0, COLUMNS, y),
    "scatter_reduce": lambda y: zeros().scatter_reduce(0, COLUMNS, y, "sum"),
    "index_add": lambda y: torch.index_add(zeros(), 0, ROWS, y),
    "index_add_": lambda y: zeros().index_add_(0, ROWS, y),
    "index_copy": lambda y: zeros().index_copy(0, ROWS, y),
    "masked_scatter": lambda y: inputs().masked_scatter(inputs() > 0, y),
    "masked_scatter_": lambda y: inputs().masked_scatter_(inputs() > 0, y),
    "copy_": lambda y: torch.zeros(4, 8).copy_(y),
    "where": lambda y: torch.where(inputs() > 0, inputs(), y),
    "+=": lambda y: inputs().add_(y),
}

# Functions that take one dtype only, have no 16-bit kernel, or leave torch.
ONE_DTYPE: dict[str, Function] = {
    "lerp": lambda y: torch.lerp(inputs(), y, 0.5),
    "dot": lambda y: torch.dot(y[0], inputs()[0]),
    "inner": lambda y: torch.inner(y, inputs()),
    "cross": lambda y: torch.linalg.cross(y[:, :3], inputs()[:, :3]),
    "det": lambda y: torch.linalg.det(y[:, :4]),
    "matrix_exp": lambda y: torch.matrix_exp(y[:, :4]),
    "solve": lambda y: torch.linalg.solve(y[:, :4] @ y[:, :4].t() + 4.0 * torch.eye(4), inputs()),
    "svdvals": lambda y: torch.linalg.svdvals(y),
    "cdist": lambda y: torch.cdist(y, inputs()),
    "rfft": lambda y: torch.fft.rfft(y).abs(),
    "complex": lambda y: torch.complex(y, inputs()),
    "polar": lambda y: torch.polar(torch.ones_like(y), y),
    "view_as_complex": lambda y: torch.view_as_complex(y.reshape(4, 4, 2)) * torch.polar(torch.ones(4), torch.ones(4)),
    "numpy": lambda y: torch.from_numpy(y.detach().numpy() * 2.0),
    "asarray": lambda y: torch.tensor(y.detach().__array__()),
    "interpolate": lambda y: F.interpolate(y[None], scale_factor=2.0, mode="linear"),
}

# Probabilities, norms and constants that 16 bits cannot hold.
CONSTANTS: dict[str, Function] = {
    "bce": lambda y: F.binary_cross_entropy(torch.sigmoid(y * 10), torch.ones(4, 8)),
    "clamped bce": lambda y: F.binary_cross_entropy(torch.sigmoid(y * 20).clamp(1e-6, 1 - 1e-6), torch.zeros(4, 8)),
    "log of eps": lambda y: -torch.log(torch.sigmoid(y) + 1e-8).mean(),
    "normalize": lambda y: F.normalize(y * 1e-5, dim=-1),
    "norm + eps": lambda y: y * 1e-5 / ((y * 1e-5).norm(dim=-1, keepdim=True) + 1e-12),
    "rms by pow": lambda y: y * 300 * torch.rsqrt((y * 300).pow(2).mean(-1, keepdim=True) + 1e-6),
    "rms by product": lambda y: rms_by_product(y * 300),
    "square": lambda y: (y * 300).square().mean(),
    "large factor": lambda y: (y * 1e6).abs().log(),
    "small divisor": lambda y: (y.detach().abs() / 1e-5 + 1.0).log(),
    "small factor": lambda y: (1e-8 * torch.ones_like(y)).log(),
}


def rms_by_product(y: Tensor) -> Tensor:
    return y / torch.sqrt((y * y).mean(-1, keepdim=True) + 1e-6)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("spelling", INTO_FP32)
def test_writing_into_a_buffer(spelling: str, name: str) -> None:
    check(INTO_FP32[spelling], name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("spelling", ONE_DTYPE)
def test_functions_of_one_dtype(spelling: str, name: str) -> None:
    check(ONE_DTYPE[spelling], name)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("spelling", CONSTANTS)
def test_constants(spelling: str, name: str) -> None:
    check(CONSTANTS[spelling], name)


def lowest(y: Tensor) -> Tensor:
    return torch.full((4, 8), torch.finfo(y.dtype).min, dtype=y.dtype)


def set_item(y: Tensor) -> Tensor:
    y = y * 1.0
    y[:, :] = -1e9
    return y


def add_in_place(y: Tensor, mask: Tensor | float) -> Tensor:
    y = y * 30 - 20
    y += mask
    return y


MASKS: dict[str, Function] = {
    "+ -1e9": lambda y: y + torch.full((4, 8), -1e9),
    "+ -1e9 in the dtype": lambda y: y + torch.full((4, 8), -1e9, dtype=y.dtype),
    "+ full_like": lambda y: y + torch.full_like(y, -1e9),
    "+ new_full": lambda y: y + y.new_full((4, 8), -1e9),
    "+ finfo.min": lambda y: y * 30 - 20 + lowest(y),
    "+= finfo.min": lambda y: add_in_place(y, lowest(y)),
    "+= -1e9": lambda y: add_in_place(y, torch.full((4, 8), -1e9)),
    "+= number": lambda y: add_in_place(y, -1e9),
    "-= number": lambda y: (y * 1.0).sub_(1e9),
    "add_": lambda y: (y * 30 - 20).add_(lowest(y)),
    "masked_fill": lambda y: y.masked_fill(WHOLE, -1e9),
    "masked_fill_": lambda y: (y * 1.0).masked_fill_(WHOLE, -1e9),
    "masked_fill finfo": lambda y: y.masked_fill(WHOLE, torch.finfo(y.dtype).min),
    "item": set_item,
    "where": lambda y: torch.where(WHOLE, torch.finfo(y.dtype).min, y),
    "where -1e9": lambda y: torch.where(~WHOLE, y, -1e9),
    "inverted mask": lambda y: y + (1.0 - torch.zeros(4, 8).type_as(y)) * -1e9,
    "inverted mask, factor on the left": lambda y: y - 1e9 * torch.ones(4, 8).to(y.dtype),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("spelling", MASKS)
def test_a_row_that_is_masked_whole(spelling: str, name: str) -> None:
    model = Calls(lambda y: MASKS[spelling](y).softmax(-1))
    convert(model, recipe(name, engine="emulated"))
    rows = model(inputs())
    torch.testing.assert_close(rows.sum(-1), torch.ones(4))
    rows[:, 0].sum().backward()
    assert torch.isfinite(model.fc.weight.grad).all()


def test_minus_infinity_stays_what_it_is() -> None:
    model = Calls(lambda y: add_in_place(y, torch.tensor([0.0, *[float("-inf")] * 7])).softmax(-1))
    convert(model, recipe("fp16"))
    assert torch.equal(model(inputs())[:, 0], torch.ones(4))


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("name", FORMATS)
def test_attention_over_a_masked_row_gives_zeros(name: str, dropout: float) -> None:
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[1] = False

    def attend(y: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(y[None, None], y[None, None], y[None, None], mask, dropout)[0, 0]

    model = Calls(attend)
    convert(model, recipe(name, engine="emulated"))
    rows = model(inputs())
    assert not rows[1].any()
    rows.sum().backward()
    assert torch.isfinite(rows).all()
    assert torch.isfinite(model.fc.weight.grad).all()


POSITIONS = torch.arange(4096.0)
SPELLINGS: dict[str, Function] = {
    "type_as": lambda y: torch.arange(4096).type_as(y),
    "to dtype": lambda y: torch.arange(4096).to(y.dtype),
    "to tensor": lambda y: torch.arange(4096).to(y),
    "arange": lambda y: torch.arange(4096, dtype=y.dtype),
    "cumsum": lambda y: torch.ones(4096, dtype=y.dtype).cumsum(0) - 1.0,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_positions(spelling: str, name: str) -> None:
    assert torch.equal(run(SPELLINGS[spelling], name)[0], POSITIONS)


def count(y: Tensor) -> Tensor:
    total = torch.zeros((), dtype=y.dtype)
    for _ in range(3000):
        total += 1
    return total


def mean_loss(y: Tensor) -> Tensor:
    total = y.new_zeros(())
    for _ in range(1000):
        total = total + torch.ones_like(y).mean() / 1000
    return total


@pytest.mark.parametrize("name", FORMATS)
def test_counters_and_meters(name: str) -> None:
    assert float(run(count, name)[0]) == 3000.0
    assert abs(float(run(mean_loss, name)[0]) - 1.0) < 1e-4


@pytest.mark.parametrize("name", FORMATS)
def test_a_single_number_promotes_nothing(name: str) -> None:
    seen: list[torch.dtype] = []

    def function(y: Tensor) -> Tensor:
        scaled = y * torch.tensor(0.5, dtype=y.dtype)
        seen.append(scaled.dtype)
        return scaled

    run(function, name)
    assert seen == [FORMATS[name]]


@pytest.mark.parametrize("name", FORMATS)
def test_outputs_leave_in_fp32(name: str) -> None:
    class Outputs(Calls):
        def forward(self, x: Tensor) -> dict[str, object]:
            y = self.fc(x)
            return {"logits": y, "hidden": (y, [y])}

    model = Outputs(lambda y: y)
    convert(model, recipe(name))
    outputs = model(inputs())
    assert outputs["logits"].detach().numpy().dtype == "float32"
    assert outputs["hidden"][1][0].dtype == torch.float32
