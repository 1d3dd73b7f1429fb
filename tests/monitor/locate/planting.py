"""Faults that are planted at a known site, and what a locator is expected to say of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .models import Subject

FP16_MIN = torch.finfo(torch.float16).min


@dataclass
class Planted:
    """A fault in a model.

    Attributes:
        site: where it is.
        causes: names that are right.
        scale: of the loss.
        inputs: what the model is called with instead.
        needs_fp16: whether it shows in fp16 only.
        weight: of the loss.
    """

    site: str
    causes: tuple[str, ...]
    scale: float = 1.0
    inputs: tuple[Tensor, ...] = ()
    needs_fp16: bool = False
    weight: float = 1.0


class Behind(nn.Module):
    """A module, and what is done to its output."""

    def __init__(self, inner: nn.Module, effect: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.effect = inner, effect

    def forward(self, *args: object, **kwargs: object) -> object:
        y = self.inner(*args, **kwargs)
        return (self.effect(y[0]), *y[1:]) if isinstance(y, tuple) else self.effect(y)


class NormBehind(Behind):
    """As Behind, of a norm's name."""


class Exploding(torch.autograd.Function):
    """Itself forward; its gradient times a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor * ctx.factor, None


def plant_behind(subject: Subject, at: str, effect: Callable[[Tensor], Tensor], kind: type[Behind] = Behind) -> None:
    parent, _, name = at.rpartition(".")
    owner = subject.model.get_submodule(parent)
    setattr(owner, name, kind(getattr(owner, name), effect))


def place_of(subject: Subject, generator: torch.Generator) -> str:
    return subject.places[int(torch.randint(len(subject.places), (), generator=generator))]


def forward_overflow(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)

    def effect(y: Tensor) -> Tensor:
        h = (y / (y.detach().abs().max() + 1e-6)).half() * 300.0
        return (h * h).half().to(y.dtype)  # a converted model multiplies wider

    plant_behind(subject, at, effect)
    return Planted(at, ("activation overflow",), needs_fp16=True)


def backward_overflow(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)
    plant_behind(subject, at, lambda y: Exploding.apply(y, 1e36))
    return Planted(at, ("gradient overflow",), scale=2.0**10)


def loss_scale(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)
    gradients: list[float] = []

    def effect(y: Tensor) -> Tensor:
        down = (y.float() * 2.0**-12).half()
        up = down * 2.0**12
        if up.requires_grad:
            up.register_hook(lambda g: gradients.append(g.float().abs().max().item()) if g.isfinite().all() else None)
        return up.to(y.dtype)

    plant_behind(subject, at, effect)
    return Planted(at, ("loss scale too high",), scale=-12.0, needs_fp16=True)  # the scale comes from the gradient


def log_of_zero(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)
    if int(torch.randint(2, (), generator=generator)):

        def effect(y: Tensor) -> Tensor:
            return y + torch.log(y - y)

    else:

        def effect(y: Tensor) -> Tensor:
            small = (y.float().abs() + 1e-3) * 1e-9
            return y + torch.log(small.half().float()).to(y.dtype)

    plant_behind(subject, at, effect)
    return Planted(at, ("log or division of a zero", "log or division of a flushed zero"))


def flushed_variance(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)
    way = int(torch.randint(3, (), generator=generator))

    def by_hand(y: Tensor) -> Tensor:
        y = y - y.detach()
        centred = y - y.mean(-1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True).half() + 1e-9)

    def fused(y: Tensor) -> Tensor:
        y = y - y.detach()
        return nn.functional.layer_norm(y, y.shape[-1:], eps=0.0)

    def by_std(y: Tensor) -> Tensor:
        y = y - y.detach()
        return (y - y.mean()) / y.float().std()

    effect, kind = ((by_hand, NormBehind), (fused, Behind), (by_std, Behind))[way]
    plant_behind(subject, at, lambda y: effect(y).to(y.dtype), kind)
    return Planted(at, ("division by a flushed variance",))


def masked_row(subject: Subject, generator: torch.Generator) -> Planted:
    at = place_of(subject, generator)
    if int(torch.randint(2, (), generator=generator)):

        def effect(y: Tensor) -> Tensor:
            mask = torch.zeros_like(y, dtype=torch.bool)
            mask[0] = True
            return y * y.masked_fill(mask, -torch.inf).softmax(-1)

    else:

        def effect(y: Tensor) -> Tensor:
            scores = (y - y.detach() - 20.0).half()
            return y * torch.add(scores, torch.full_like(scores, FP16_MIN)).softmax(-1).to(y.dtype)

    plant_behind(subject, at, effect)
    return Planted(at, ("-inf row",))


def bad_batch(subject: Subject, generator: torch.Generator) -> Planted:
    (x,) = subject.inputs
    if not x.is_floating_point():
        return Planted("<loss>", ("loss fault",), weight=torch.nan)
    bad = x.clone()
    values = (torch.nan, torch.inf, -torch.inf)
    bad.view(-1)[int(torch.randint(x.numel(), (), generator=generator))] = values[
        int(torch.randint(3, (), generator=generator))
    ]
    return Planted("<input>", ("bad input data",), inputs=(bad,))


def flipped_bit(subject: Subject, generator: torch.Generator) -> Planted:
    named = [
        (n, p) for n, p in subject.model.named_parameters() if p.dim() > 1 and "tokens" not in n and "emb" not in n
    ]
    name, p = named[int(torch.randint(len(named), (), generator=generator))]
    with torch.no_grad():
        flat = p.view(-1)
        order = torch.randperm(flat.numel(), generator=generator)
        index = next(int(i) for i in order if 1e-3 < abs(flat[i].item()) < 2.0)
        bits = flat[index : index + 1].view(torch.int32)
        bits.bitwise_xor_(torch.tensor(1 << 30, dtype=torch.int32))
    return Planted(name.rpartition(".")[0], ("flipped exponent bit in a weight",))


KINDS: dict[str, Callable[[Subject, torch.Generator], Planted]] = {
    "forward overflow": forward_overflow,
    "backward overflow": backward_overflow,
    "loss scale too high": loss_scale,
    "log of zero": log_of_zero,
    "flushed variance": flushed_variance,
    "masked row": masked_row,
    "bad batch": bad_batch,
    "flipped bit": flipped_bit,
}
