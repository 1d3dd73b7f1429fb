"""One planted fault, located: what was expected and what was said."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import mixprec
from mixprec.monitor import Locator, StepFacts

from .further_models import FURTHER
from .models import SUBJECTS, Subject
from .planting import KINDS, Planted

#: How a model computes: as torch does, in torch's autocast, or converted.
WAYS = ("fp32", "autocast", "fp16", "bf16")


@dataclass(frozen=True)
class Trial:
    """What was planted and what was said; ``site`` is empty where nothing was."""

    kind: str
    subject: str
    way: str
    planted: Planted
    site: str
    cause: str
    said: str

    @property
    def is_site_right(self) -> bool:
        return self.site.partition(" (")[0] == self.planted.site

    @property
    def is_right(self) -> bool:
        return self.is_site_right and self.cause in self.planted.causes

    def __str__(self) -> str:
        return (
            f"{self.kind}, {self.subject}, {self.way}: expected {self.planted.site} {self.planted.causes}: {self.said}"
        )


def run_trial(kind: str, subject_name: str, seed: int, recipes: tuple[str, ...] = ()) -> Trial:
    """Plant a fault, run a step and locate it; faults that happen to do no harm are planted elsewhere.

    Args:
        kind: of the fault.
        subject_name: of the model.
        seed: of all that is drawn.
        recipes: to convert to, one of them; none: one of ``WAYS``.
    """
    for attempt in range(8):
        generator = torch.Generator().manual_seed(1000 * seed + attempt)
        subject = (SUBJECTS | FURTHER)[subject_name](seed)
        planted = KINDS[kind](subject, generator)
        ways = recipes or (("autocast", "fp16") if planted.needs_fp16 else WAYS)
        way = ways[int(torch.randint(len(ways), (), generator=generator))]
        found = _locate(subject, planted, way)
        if found is not None:
            return Trial(kind, subject_name, way, planted, *found)
    raise AssertionError(f"{kind}, {subject_name}, seed {seed}: no planted fault did any harm")


def _locate(subject: Subject, planted: Planted, way: str) -> tuple[str, str, str] | None:
    conversion = mixprec.convert(subject.model, way) if way not in ("fp32", "autocast") else None
    if planted.scale < 0:
        planted.scale = _scale_for(subject, planted, way, 2.0**-planted.scale)
    locator = Locator(subject.model, conversion)
    subject.model.train()
    step(subject, planted, way)
    facts = facts_of(subject.model, planted.scale)
    if facts.is_finite:
        return None
    before = state_of(subject.model)
    (finding,) = locator.skipped(facts)
    locator.close()
    assert_untouched(before, state_of(subject.model))
    return finding.site, finding.name, str(finding)


def step(subject: Subject, planted: Planted, way: str) -> None:
    for p in subject.model.parameters():
        p.grad = None
    inputs = planted.inputs or subject.inputs
    around = torch.autocast("cpu", dtype=torch.float16) if way == "autocast" else contextlib.nullcontext()
    with around:
        out = subject.model(*inputs)
    (subject.loss(out) * planted.weight * planted.scale).backward()


def _scale_for(subject: Subject, planted: Planted, way: str, gain: float) -> float:
    """A scale at which the gradient leaves fp16 behind a gain, and hardly anywhere else."""
    found: list[Tensor] = []
    module = subject.model.get_submodule(planted.site)
    handle = module.register_forward_hook(lambda m, a, y: y.register_hook(found.append) and None)
    planted.scale = 2.0**10
    step(subject, planted, way)
    handle.remove()
    amax = max(found[0].float().abs().max().item() / 2.0**10, 1e-12)
    scale = 1.0
    while amax * scale * gain < 2 * 65504.0:
        scale *= 2.0
    return scale


def facts_of(model: nn.Module, scale: float) -> StepFacts:
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    norms = {name: float(g.float().norm()) for name, g in gradients.items()}
    finite = all(bool(g.isfinite().all()) for g in gradients.values())
    return StepFacts(
        step=3,
        losses=(),
        grad_norm=sum(norms.values()),
        norms=norms,
        is_finite=finite,
        scale=scale,
        loss_scales={"loss": scale},
        gradients=gradients,
        parameters=dict(model.named_parameters()),
    )


def state_of(model: nn.Module) -> dict[str, object]:
    values = {name: (t, t.detach().clone(), t._version) for name, t in model.state_dict(keep_vars=True).items()}
    grads = {name: (p.grad, None if p.grad is None else p.grad.clone()) for name, p in model.named_parameters()}
    hooks = {n: (len(m._forward_hooks), len(m._forward_pre_hooks)) for n, m in model.named_modules() if n}
    return {"values": values, "grads": grads, "hooks": hooks, "random": torch.get_rng_state()}


def assert_untouched(before: dict, after: dict) -> None:
    assert torch.equal(before["random"], after["random"])
    assert before["hooks"] == after["hooks"]
    for name, (tensor, copy, version) in before["values"].items():
        now, values, now_version = after["values"][name]
        assert now is tensor, name
        assert version == now_version, name
        assert torch.equal(copy.nan_to_num(), values.nan_to_num()), name
    for name, (gradient, copy) in before["grads"].items():
        now, values = after["grads"][name]
        assert now is gradient, name
        assert gradient is None or torch.equal(copy.nan_to_num(), values.nan_to_num()), name
