"""Scores against their definition, computed by hand in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec import fake_quantize
from mixprec.nn import convert
from mixprec.planner import Candidate, CandidateScore, Effort, Scores, measure_scores
from mixprec.specs import LayerPrecision, Recipe, Rule

from .jobs import BOTH, EXACT, MXFP4, MXFP8, Attending, Pictures, cross_entropy, images, sequences, vectors


def _score(scores: Scores, group: str, candidate: str) -> CandidateScore:
    return next(g for g in scores.groups if g.name == group).candidates[candidate]


def _cast(x: Tensor) -> Tensor:
    return fake_quantize(x, "mxfp4").double()


def test_linear_layer_by_hand() -> None:
    torch.manual_seed(0)
    model, (x, y) = nn.Linear(32, 10), vectors(4096)
    score = _score(measure_scores(model, cross_entropy, [(x, y)], [MXFP4]), "", "mxfp4")
    weight, bias = (p.detach().double() for p in model.parameters())
    p = (x.double() @ weight.T + bias).softmax(-1)
    error = _cast(x) @ _cast(weight.float()).T - x.double() @ weight.T
    hessian = (p * error.square()).sum(-1) - (p * error).sum(-1).square()
    assert score.curvature == pytest.approx(0.5 * hessian.mean().item(), rel=0.05)
    change = ((p - F.one_hot(y, 10)) * error).sum(-1)
    assert score.slope == pytest.approx(change.mean().item(), rel=1e-4)
    assert score.slope_error == pytest.approx(change.std().item() / 64, rel=1e-5)
    assert score.output_error == pytest.approx(
        (error.square().sum() / (x.double() @ weight.T).square().sum()).item(), rel=1e-5
    )


def test_other_losses_by_fishers_information() -> None:
    torch.manual_seed(0)

    def distance(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return (model(batch[0]) - batch[1]).square().sum(-1).mean()

    model, batch = nn.Linear(32, 10), (torch.randn(64, 32), torch.randn(64, 10))
    score = _score(measure_scores(model, distance, [batch], [MXFP4]), "", "mxfp4")
    weight, bias = (p.detach().double() for p in model.parameters())
    gradient = 2 * (batch[0].double() @ weight.T + bias - batch[1])
    error = _cast(batch[0]) @ _cast(weight.float()).T - batch[0].double() @ weight.T
    change = (gradient * error).sum(-1)
    assert score.curvature == pytest.approx(0.5 * change.square().mean().item(), rel=1e-5)
    assert score.slope == pytest.approx(change.mean().item(), rel=1e-4)


def test_weight_gradient_by_hand() -> None:
    torch.manual_seed(0)
    model, (x, y) = nn.Linear(32, 10, bias=False), vectors(256)
    score = _score(measure_scores(model, cross_entropy, [(x, y)], [MXFP4]), "", "mxfp4")
    g = (torch.autograd.grad(F.cross_entropy(logits := model(x), y), logits)[0]).detach()
    parts, errors = [], []
    for g_part, x_part in zip(g.chunk(8), x.chunk(8), strict=True):
        parts.append(g_part.double().T @ x_part.double())
        errors.append(_cast(g_part.T.contiguous()) @ _cast(x_part.T.contiguous()).T - parts[-1])
    whole = sum(parts).square().sum()
    noise = sum((p - sum(parts) / 8).square().sum() for p in parts) * 8 / 7
    assert score.gradient_noise == pytest.approx((noise / whole).sqrt().item(), rel=1e-4)
    common = (errors[0] * errors[1]).sum()
    each = (errors[0].square().sum() + errors[1].square().sum()) / 2
    assert score.gradient_bias == pytest.approx((64 * common / whole).clamp(min=0).sqrt().item(), rel=1e-3)
    expected = ((64 * common + 8 * (each - common)) / whole).sqrt().item()
    assert score.gradient_error == pytest.approx(expected, rel=1e-3)


def test_weight_gradient_of_a_convolution_by_hand() -> None:
    torch.manual_seed(0)
    model, (x, y) = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Flatten()), images(16)
    score = _score(measure_scores(model, cross_entropy, [(x, y)], [MXFP4]), "0", "mxfp4")
    (g,) = torch.autograd.grad(F.cross_entropy(logits := model(x), y), logits)
    casted = convert(rounding := nn.Sequential(model[0]), Recipe(name="x", rules=(Rule(precision=MXFP4.precision),)))
    rounded = []
    for g_part, x_part in zip(g.unflatten(1, (8, 8, 8)).split(2), x.split(2), strict=True):
        rounded += torch.autograd.grad(rounding(x_part), model[0].weight, g_part)
    casted.restore()
    parts = []
    for g_part, x_part in zip(g.unflatten(1, (8, 8, 8)).split(2), x.split(2), strict=True):
        parts += torch.autograd.grad(model[0](x_part), model[0].weight, g_part)
    errors = [(a - b).double() for a, b in zip(rounded[:2], parts[:2], strict=True)]
    whole = torch.stack(parts).sum(0).double().square().sum()
    common = (errors[0] * errors[1]).sum()
    each = (errors[0].square().sum() + errors[1].square().sum()) / 2
    expected = ((64 * common + 8 * (each - common)) / whole).sqrt().item()
    assert score.gradient_error == pytest.approx(expected, rel=1e-3)
    assert score.gradient_bias == pytest.approx((64 * common / whole).clamp(min=0).sqrt().item(), rel=1e-3)


def _squares(model: Callable[[Tensor], Tensor], batch: tuple[Tensor, Tensor]) -> Tensor:
    """Mean over the samples of the outputs' squared sum: no cross-entropy."""
    return model(batch[0]).square().sum(-1).mean()


def test_images_are_the_terms_of_a_convolution() -> None:
    torch.manual_seed(0)
    model, (x, y) = Pictures().eval(), images()
    score = _score(measure_scores(model, _squares, [(x, y)], [MXFP4]), "first", "mxfp4")
    out = model.first(x).detach().requires_grad_()
    hidden = F.relu(model.norm(out))
    loss = _squares(lambda _: model.head(F.relu(model.second(hidden)).mean((2, 3))), (x, y))
    (g,) = torch.autograd.grad(loss, out)
    cast = convert(holder := nn.Sequential(model.first), Recipe(name="x", rules=(Rule(precision=MXFP4.precision),)))
    with torch.no_grad():
        rounded = holder(x)
    cast.restore()
    change = ((rounded - out.detach()).double() * g.double()).sum((1, 2, 3)) * len(x)
    assert score.curvature == pytest.approx(0.5 * change.square().mean().item(), rel=1e-4)
    assert score.slope == pytest.approx(change.mean().item(), rel=1e-3)


@pytest.mark.parametrize("group", ["q", "qk", "pv", "o", "head"])
def test_second_order_tells_the_true_change_of_the_same_batch(group: str) -> None:
    """Of a small error, MXFP8's, where the targets are as likely as the model says: then Fisher's is the curvature."""
    torch.manual_seed(0)
    model, (x, _) = Attending(), sequences(128)
    with torch.no_grad():
        batch = x, torch.distributions.Categorical(logits=model(x)).sample()
    scores = measure_scores(model, cross_entropy, [batch], [MXFP8])
    found = next(g for g in scores.groups if g.name == group)
    rules = tuple(_rule(site, kind) for site, kind in zip(found.sites, found.kinds, strict=True))
    with torch.no_grad():
        before = cross_entropy(model.double(), tuple(t.double() if t.is_floating_point() else t for t in batch))
        conversion = convert(model.float(), Recipe(name="one", rules=rules))
        change = float(cross_entropy(model, batch)) - float(before)
        conversion.restore()
    score = found.candidates["mxfp8"]
    assert score.slope + score.curvature == pytest.approx(change, abs=0.3 * score.curvature + 3e-7)


def _rule(site: str, kind: str) -> Rule:
    is_product = kind in ("qk", "pv")
    return Rule(match="*" if is_product else site, type=kind, precision=MXFP8.precision)


def test_exact_candidate_changes_nothing() -> None:
    model, batch = Attending(), sequences()
    for group in measure_scores(model, cross_entropy, [batch], [EXACT]).groups:
        score = group.candidates["exact"]
        assert score.loss == score.curvature == score.slope == score.output_error == score.gradient_error == 0.0


def test_narrower_costs_more() -> None:
    scores = measure_scores(Attending(), cross_entropy, [sequences()], BOTH)
    for group in scores.groups:
        assert group.candidates["mxfp4"].curvature > 10 * group.candidates["mxfp8"].curvature
        assert group.candidates["mxfp4"].output_error > 5 * group.candidates["mxfp8"].output_error


def test_stochastic_gradients_are_less_biased_and_noisier() -> None:
    torch.manual_seed(0)
    nearest = Candidate(name="nearest", precision=LayerPrecision.of(grad_output="mxfp4"))
    stochastic = Candidate(name="stochastic", precision=LayerPrecision.of(grad_output="mxfp4 x3/4 sr"))
    model, (x, _) = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10)), vectors(1024, 64)
    batch = x + 0.5, (x @ torch.randn(64, 10)).argmax(-1)  # a gradient that the parts of the batch agree on
    scores = measure_scores(model, cross_entropy, [batch], [nearest, stochastic])
    a, b = (_score(scores, "0", name) for name in ("nearest", "stochastic"))
    assert b.gradient_bias < a.gradient_bias / 1.4
    assert b.gradient_error > b.gradient_bias
    assert a.loss == b.loss == 0.0


def test_sites_of_a_group_add_before_they_are_squared() -> None:
    """Two layers that read one input and whose results are subtracted: equal weights, equal errors, no change."""

    class Difference(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(32, 10, bias=False), nn.Linear(32, 10, bias=False)
            self.b.weight.data.copy_(self.a.weight)

        def forward(self, x: Tensor) -> Tensor:
            return x[:, :10] + self.a(x) - self.b(x)

    (group,) = measure_scores(Difference(), cross_entropy, [vectors()], [MXFP4]).groups
    assert group.sites == ("a", "b")
    assert group.candidates["mxfp4"].curvature == pytest.approx(0.0, abs=1e-12)
    assert group.candidates["mxfp4"].output_error > 0.01


def test_only_what_is_asked_for_is_scored() -> None:
    model, batch = Attending(), sequences()
    every = measure_scores(model, cross_entropy, [batch], [MXFP4])
    few = measure_scores(model, cross_entropy, [batch], [MXFP4], effort=Effort(activations=False, gradients=False))
    assert [g.name for g in every.groups] == ["q", "qk", "pv", "o", "head"]
    assert [g.name for g in few.groups] == ["q", "o", "head"]
    for group in few.groups:
        score, same = group.candidates["mxfp4"], _score(every, group.name, "mxfp4")
        assert score.curvature == pytest.approx(same.curvature, rel=1e-4)
        assert (score.gradient_error, score.gradient_bias, score.gradient_noise) == (0.0, 0.0, 0.0)
        assert same.gradient_error > 0


def test_batches_are_measured_while_they_end_in_time() -> None:
    model, batches = Attending(), [sequences(seed=seed) for seed in range(3)]
    every = measure_scores(model, cross_entropy, batches, [MXFP4], effort=Effort(most_steps=1e6))
    first = measure_scores(model, cross_entropy, batches, [MXFP4], effort=Effort(most_steps=1e-6))
    assert (every.batches, first.batches) == (3, 1)
    assert not every.notes
    assert first.notes == ("1 of 3 batches measured: one more was not expected to end within 1e-06 steps' time",)
    alone = measure_scores(model, cross_entropy, batches[:1], [MXFP4])
    assert first.loss == alone.loss
    assert _score(first, "o", "mxfp4") == _score(alone, "o", "mxfp4")
    with pytest.raises(ValueError, match="most_steps is 0"):
        Effort(most_steps=0)


def test_two_batches_are_the_mean_of_each() -> None:
    model, batches = Attending(), [sequences(seed=0), sequences(4, 24, seed=1)]
    both = measure_scores(model, cross_entropy, batches, [MXFP4])
    each = [measure_scores(model, cross_entropy, [batch], [MXFP4], seed=i) for i, batch in enumerate(batches)]
    assert both.loss == pytest.approx(sum(s.loss for s in each) / 2)
    for group, name in itertools.product(("o", "qk"), ("curvature", "slope")):
        mean = sum(getattr(_score(s, group, "mxfp4"), name) for s in each) / 2
        assert getattr(_score(both, group, "mxfp4"), name) == pytest.approx(mean, rel=1e-5)


def test_memory_that_a_later_batch_takes_again_is_not_shared() -> None:
    layers = [module for _ in range(6) for module in (nn.Linear(32, 32), nn.ReLU())]
    model, batches = nn.Sequential(*layers, nn.Linear(32, 10)), [sequences(4, seed=seed) for seed in range(8)]
    few = Effort(activations=False, gradients=False)
    groups = measure_scores(model, cross_entropy, batches, [MXFP4], effort=few).groups
    assert [group.sites for group in groups] == [(str(2 * layer),) for layer in range(7)]
