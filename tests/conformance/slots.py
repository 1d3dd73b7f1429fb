"""Slots of an optimizer's step with random contents, and copies of them to compare."""

from collections.abc import Iterator

import torch
from torch import Tensor

from mixprec.kernels import AdamWRule, Draw, Rule, SGDRule, Slot, StoredMoment, StoredWeight, get_backend

WEIGHTS = (
    ("plain", torch.float32),
    ("plain", torch.bfloat16),
    ("plain", torch.float16),
    ("master", torch.bfloat16),
    ("master", torch.float16),
    ("split", torch.bfloat16),
    ("stochastic", torch.bfloat16),
    ("kahan", torch.bfloat16),
)
MOMENTS = (
    ("fp32", 256, False),
    ("bf16", 256, False),
    ("e4m3", 256, True),
    ("e4m3", 128, True),
    ("e4m3", 128, False),
    ("dynamic", 256, False),
    ("dynamic", 128, False),
)
EXTRAS = {"master": torch.float32, "split": torch.int16, "kahan": torch.bfloat16}
DRAW = Draw(-7, 2**40 + 3)
ADAMW = AdamWRule(
    factor=0.37,
    decay=1.0 - 1e-4,
    beta1=0.9,
    alpha1=0.1,
    beta2=0.99,
    alpha2=0.01,
    rate=1e-3 / 0.271,
    correction=(1 - 0.99**3) ** -0.5,
    eps=1e-8,
)
RULES: dict[str, Rule] = {
    "adamw": ADAMW,
    "sgd": SGDRule(factor=0.5, weight_decay=0.0, momentum=0.0, alpha=1.0, nesterov=False, is_first=False, lr=0.1),
    "decayed": SGDRule(factor=0.3, weight_decay=0.01, momentum=0.0, alpha=1.0, nesterov=False, is_first=False, lr=0.1),
    "momentum": SGDRule(factor=0.3, weight_decay=0.01, momentum=0.9, alpha=0.7, nesterov=False, is_first=False, lr=0.1),
    "nesterov": SGDRule(factor=-1.0, weight_decay=0.0, momentum=0.9, alpha=1.0, nesterov=True, is_first=False, lr=0.1),
    "first": SGDRule(factor=1.0, weight_decay=0.01, momentum=0.9, alpha=1.0, nesterov=False, is_first=True, lr=0.1),
}


def wide(shape: tuple[int, ...], seed: int) -> Tensor:
    """Normal numbers over many binades, some of them zero or subnormal."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    x = x * 2.0 ** torch.randint(-20, 4, shape, generator=generator)
    place = torch.randint(0, 50, shape, generator=generator)
    x = torch.where(place == 0, 0.0, x)
    return torch.where(place == 1, x * 2.0**-126, x)


def kept_weight(kind: str, dtype: torch.dtype, value: Tensor) -> StoredWeight:
    """A weight that keeps a value, by the reference."""
    extra = torch.zeros(value.shape, dtype=EXTRAS[kind]) if kind in EXTRAS else None
    stored = StoredWeight(kind, torch.zeros(value.shape, dtype=dtype), extra)  # type: ignore[arg-type]
    get_backend("reference").store_weight(stored, value, Draw())  # type: ignore[attr-defined]
    return stored


def kept_moment(moment: tuple[str, int, bool], value: Tensor, is_signed: bool) -> StoredMoment:
    """A moment that keeps a value, by the reference."""
    kind, block, expand = moment
    scales = powers = None
    values = torch.zeros(value.shape, dtype=torch.float32 if kind == "fp32" else torch.bfloat16)
    if kind in ("e4m3", "dynamic"):
        blocks = -(-value.numel() // block)
        values, scales = torch.zeros(value.numel(), dtype=torch.uint8), torch.zeros(blocks)
        powers = torch.zeros(blocks, dtype=torch.uint8) if kind == "e4m3" else None
    stored = StoredMoment(kind, values, scales, powers, block, expand, is_signed)  # type: ignore[arg-type]
    get_backend("reference").store_moment(stored, value)  # type: ignore[attr-defined]
    return stored


def moment_count(rule: Rule) -> int:
    return 2 if isinstance(rule, AdamWRule) else int(rule.momentum != 0)


def slot_of(
    n: int, rule: Rule, weight: tuple[str, torch.dtype], moment: tuple[str, int, bool], gradient: torch.dtype, seed: int
) -> Slot:
    """A slot of n elements, every tensor random."""
    values = [wide((n,), seed), wide((n,), seed + 1).square()]
    moments = tuple(kept_moment(moment, values[i], is_signed=i == 0) for i in range(moment_count(rule)))
    kept = kept_weight(*weight, wide((n,), seed + 2))
    return Slot(wide((n,), seed + 3).to(gradient), kept, moments, DRAW)


def copied(slot: Slot) -> Slot:
    """A slot of its own tensors."""
    stored = slot.weight
    weight = StoredWeight(stored.kind, stored.weight.clone(), _clone(stored.extra))
    moments = tuple(
        StoredMoment(m.kind, m.values.clone(), _clone(m.scales), _clone(m.powers), m.block, m.expand, m.is_signed)
        for m in slot.moments
    )
    return Slot(slot.gradient, weight, moments, slot.draw)


def tensors(slot: Slot) -> Iterator[Tensor]:
    """All that a step writes."""
    candidates = [slot.weight.weight, slot.weight.extra]
    for moment in slot.moments:
        candidates += [moment.values, moment.scales, moment.powers]
    return (tensor for tensor in candidates if tensor is not None)


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Equal bit for bit; in fp32 a NaN equals any NaN."""
    if a.dtype == torch.float32:
        return bool(((a.view(torch.int32) == b.view(torch.int32)) | (a.isnan() & b.isnan())).all())
    if a.dtype.is_floating_point:
        return torch.equal(a.view(torch.int16), b.view(torch.int16))
    return torch.equal(a, b)


def same_slots(a: Slot, b: Slot) -> bool:
    return all(same_bits(x, y) for x, y in zip(tensors(a), tensors(b), strict=True))


def _clone(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()
