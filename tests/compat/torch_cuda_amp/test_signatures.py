"""A loop that was written for ``torch.cuda.amp``, with the import changed."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mixprec.compat import torch_amp
from mixprec.compat.torch_cuda_amp import GradScaler, autocast, custom_bwd, custom_fwd

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.filterwarnings("ignore:.*CUDA is not available here")


def names(signature: object) -> list[tuple[str, object]]:
    parameters = inspect.signature(signature).parameters.values()  # pyright: ignore[reportArgumentType]
    return [(p.name, p.default) for p in parameters]


def test_signatures_are_torchs() -> None:
    assert names(GradScaler) == [
        ("init_scale", 65536.0), ("growth_factor", 2.0), ("backoff_factor", 0.5), ("growth_interval", 2000),
        ("enabled", True), ("process_group", "default"),
    ]  # fmt: skip
    assert names(autocast) == [("enabled", True), ("dtype", torch.float16), ("cache_enabled", True)]
    assert names(torch_amp.GradScaler) == [*names(torch.amp.GradScaler), ("process_group", "default")]
    assert names(torch_amp.autocast) == names(torch.amp.autocast)
    assert names(torch_amp.custom_fwd) == names(torch.amp.custom_fwd)
    assert names(torch_amp.custom_bwd) == names(torch.amp.custom_bwd)
    assert names(custom_fwd) == [("fwd", None), ("cast_inputs", None)]
    assert names(custom_bwd) == [("bwd", inspect.Parameter.empty)]


def test_the_loop() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(DEVICE)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.5), GradScaler(growth_interval=10)
    x, y = torch.randn(32, 8, device=DEVICE), torch.arange(32, device=DEVICE) % 3
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with autocast():
            output = model(x)
            loss = F.cross_entropy(output, y)
        assert output.dtype == torch.float16
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert scaler.get_scale() == 2.0**19
    assert isinstance(scaler, torch_amp.GradScaler)


def test_as_a_decorator() -> None:
    layer = nn.Linear(2, 2).to(DEVICE)

    @autocast(dtype=torch.bfloat16)
    def forward() -> torch.Tensor:
        return layer(torch.ones(1, 2, device=DEVICE))

    assert forward().dtype == torch.bfloat16
    with autocast(False):
        assert layer(torch.ones(1, 2, device=DEVICE)).dtype == torch.float32


def test_own_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        @custom_fwd(cast_inputs=torch.float32)
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        @custom_bwd
        def backward(ctx: object, *grad_outputs: torch.Tensor) -> torch.Tensor:
            return 2 * grad_outputs[0]

    x = torch.ones(2, dtype=torch.float16, device=DEVICE, requires_grad=True)
    with autocast():
        y = Double.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]
