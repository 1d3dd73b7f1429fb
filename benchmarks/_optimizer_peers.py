"""The same step as other libraries' users write it, where they are installed."""

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

Call = Callable[[], object]


def peers(weights: Tensor, gradient: Tensor) -> dict[str, Call]:
    """What can be called here, by what it keeps."""
    found = {
        "torch: unscale, clip, fused AdamW": _torch(weights, gradient),
        "torch: fp32 masters of bf16 weights": _torch_masters(weights, gradient),
    }
    if importlib.util.find_spec("torchao"):
        found |= _torchao(weights, gradient)
    return found


def _torch(weights: Tensor, gradient: Tensor) -> Call:
    param = torch.nn.Parameter(weights.clone())
    param.grad = gradient.clone()
    optimizer = torch.optim.AdamW([param], lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=10**6)
    scaler.scale(torch.zeros(()))  # which makes its scale

    def call() -> None:
        scaler.unscale_(optimizer)
        clip_grad_norm_([param], 1.0)
        scaler.step(optimizer)
        scaler.update()

    return call


def _torch_masters(weights: Tensor, gradient: Tensor) -> Call:
    """The usual loop: gradients to fp32, unscale, clip, step on the masters, masters to the weights."""
    weight, given = weights.bfloat16(), gradient.bfloat16()
    master = torch.nn.Parameter(weights.clone())
    master.grad = gradient.clone()
    optimizer = torch.optim.AdamW([master], lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=10**6)
    scaler.scale(torch.zeros(()))

    def call() -> None:
        if master.grad is not None:
            master.grad.copy_(given)
        scaler.unscale_(optimizer)
        clip_grad_norm_([master], 1.0)
        scaler.step(optimizer)
        scaler.update()
        weight.copy_(master.detach())

    return call


def _torchao(weights: Tensor, gradient: Tensor) -> dict[str, Call]:
    """Steps that it compiles at the first call; without unscaling and clipping."""
    from torchao.optim import AdamW8bit, _AdamW

    half = torch.nn.Parameter(weights.bfloat16())
    half.grad = gradient.bfloat16()
    stochastic = _AdamW([half], lr=1e-3, bf16_stochastic_round=True)
    full = torch.nn.Parameter(weights.clone())
    full.grad = gradient.clone()
    narrow = AdamW8bit([full], lr=1e-3)
    return {
        "torchao: bf16, stochastic, the step alone": stochastic.step,
        "torchao: fp32, 8-bit moments, the step alone": narrow.step,
    }
