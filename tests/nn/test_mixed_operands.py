"""A 16-bit activation that meets fp32 parameters: what torch's autocast takes works here, and the audit names it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import recipe


class Twice(nn.Module):
    """A module of two inputs."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x)


class First(nn.Module):
    """The first of what a module gives."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y[0] if isinstance(y, tuple) else y


class Calls(nn.Module):
    """A function of an activation and parameters."""

    def __init__(self, call: Callable[..., Tensor], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.call = call
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(shape) * 0.3) for shape in shapes])

    def forward(self, x: Tensor) -> Tensor:
        return self.call(x, *self.weights)


FLAT, LONG, IMAGE = (4, 8), (2, 2, 8), (1, 2, 4, 4)
SECOND: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Bilinear": (lambda: Twice(nn.Bilinear(8, 8, 5)), FLAT),
    "bilinear of two dtypes": (lambda: Calls(lambda x, z, w: F.bilinear(x, z, w), (4, 3), (5, 8, 3)), FLAT),
    "LSTMCell": (lambda: First(nn.LSTMCell(8, 6)), FLAT),
    "GRUCell": (lambda: nn.GRUCell(8, 6), FLAT),
    "RNNCell": (lambda: nn.RNNCell(8, 6), FLAT),
    "RNNCell relu": (lambda: nn.RNNCell(8, 6, nonlinearity="relu"), FLAT),
    "LSTM": (lambda: First(nn.LSTM(8, 6, 2, bidirectional=True)), LONG),
    "LSTM projected": (lambda: First(nn.LSTM(8, 6, proj_size=3)), LONG),
    "GRU": (lambda: First(nn.GRU(8, 6)), LONG),
    "RNN": (lambda: First(nn.RNN(8, 6)), LONG),
    "ConvTranspose1d": (lambda: nn.ConvTranspose1d(2, 3, 3), LONG),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2, groups=2), IMAGE),
    "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 3, 2), (1, 2, 2, 2, 4)),
    "PReLU": (lambda: nn.PReLU(8), FLAT),
    "cdist": (lambda: Calls(torch.cdist, (5, 8)), FLAT),
    "addr": (lambda: Calls(lambda x, w: torch.addr(x, w, x[0]), (4,)), FLAT),
    "dot": (lambda: Calls(lambda x, w: torch.dot(x[0], w), (8,)), FLAT),
    "kron": (lambda: Calls(torch.kron, (4, 8)), FLAT),
    "conv_tbc": (lambda: Calls(lambda x, w, b: torch.conv_tbc(x, w, b), (1, 8, 3), (3,)), LONG),
    "grid_sample": (lambda: Calls(lambda x, w: F.grid_sample(x, w, align_corners=False), (1, 3, 3, 2)), IMAGE),
    "affine_grid": (
        lambda: Calls(lambda x: F.affine_grid(x[:, :6].reshape(4, 2, 3), [4, 2, 3, 3], align_corners=False)), FLAT
    ),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(8), FLAT),
    "GroupNorm": (lambda: nn.GroupNorm(2, 8), FLAT),
    "RMSNorm": (lambda: nn.RMSNorm(8), FLAT),
    "where": (lambda: Calls(lambda x, w: torch.where(x > 0, x, w), (4, 8)), FLAT),
    "scatter_add": (
        lambda: Calls(lambda x, w: w.scatter_add(0, torch.zeros(4, 8, dtype=torch.long), x), (4, 8)), FLAT
    ),
}  # fmt: skip


class Behind(nn.Module):
    """A layer, and behind it what is tested."""

    def __init__(self, second: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.shape = nn.Linear(8, 8, bias=False), second(), shape

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).reshape(self.shape))


def trained(model: nn.Module) -> list[Tensor]:
    """The output and all gradients."""
    y = model(torch.randn(4, 8, generator=torch.Generator().manual_seed(3)))
    y.backward((torch.arange(y.numel()) % 5 - 2).reshape(y.shape).to(y.dtype))
    return [y.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("native", [False, True], ids=["emulated", "native"])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("name", SECOND)
def test_near_fp32_and_named(name: str, dtype: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a CPU with matrix units, or a CUDA device, answers; torch's kernels of 16 bits run everywhere.
    monkeypatch.setattr("mixprec.nn._convert.native_compute", lambda device, kind: native)
    model, wide = Behind(*SECOND[name]), Behind(*SECOND[name])
    conversion = convert(model, recipe(dtype))
    with conversion.measured():
        got = trained(model)
    want = trained(wide)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert float((g - w).norm()) <= (0.05 if dtype == "bf16" else 0.02) * float(w.norm()) + 1e-3
    assert not conversion.audit().uncovered


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("name", SECOND)
def test_nothing_is_uncovered_under_fp32_activations(name: str) -> None:
    model = Behind(*SECOND[name])
    conversion = convert(model, "mxfp8")
    with conversion.measured():
        trained(model)
    assert not conversion.audit().uncovered
