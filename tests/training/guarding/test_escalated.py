"""A site that was given wider casts stays wide, wherever the run went back to."""

from __future__ import annotations

from dataclasses import replace

import torch

from mixprec import prepare, recipe
from mixprec.specs import LayerPrecision, Phase, rules_at

from .runs import SETTINGS, Numbers, loss, net


def test_a_site_that_a_later_phase_has_made_narrow_stays_wide_from_before_that_phase():
    narrow = Phase(from_step=45, rules=tuple(rules_at("0", LayerPrecision.uniform("e2m1[tensor]"))))
    model = net()
    session = prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3), replace(recipe("bf16"), phases=(narrow,)))
    guarded = session.guard(SETTINGS)
    for _ in range(4):
        guarded.hear_gap(0.001, 1.0)
    casts: list[str] = []
    for i, x in enumerate(guarded.batches(Numbers(70))):
        if i == 49:
            guarded.hear_gap(0.5, 1.0)
        precision = session._conversion.precisions().get("0")
        casts.append("" if precision is None else str(precision.fprop_input))
        session.step(loss(session, x))
    (incident,) = session.incidents
    assert (incident.trigger, incident.rung, incident.step, incident.back_to) == ("precision drift", "escalate", 49, 40)
    assert casts == [""] * 45 + ["e2m1[tensor]"] * 5 + [""] * 5 + ["e4m3[tensor]"] * (len(casts) - 55)
    assert len(casts) > 60
