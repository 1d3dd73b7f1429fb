"""What leaves its range forward and backward, loss scales, laundered infinities, and healthy twins."""

from __future__ import annotations

import tomllib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mixprec.monitor import Preflight, check_step
from mixprec.specs import Recipe, recipe
from mixprec.training import prepare
from tests.monitor.check.planted import Told, batch, loss_of

FP16 = torch.float16


def names(found: Preflight) -> list[tuple[str, str]]:
    return [(f.severity, f.name) for f in found]


def scaled(factor: float) -> nn.Module:
    """A linear layer of which every output is ``factor``."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, factor)
    return model


ONE = torch.ones(1, 1)


@pytest.mark.parametrize(
    ("factor", "told"),
    [(8000.0, []), (8192.0, [("warning", "close to fp16's limit")]), (65504.0, [("warning", "close to fp16's limit")])],
)
def test_the_headroom_of_fp16(factor: float, told: list[tuple[str, str]]) -> None:
    model = scaled(factor).half()
    found = check_step(model, lambda: model(ONE.half()).float().mean())
    assert [f for f in names(found) if "backward" not in found[0].site] == told


def test_an_overflow_names_the_layer_the_limit_and_a_recipe() -> None:
    model = Told(lambda s, h: (h * 300) * (h * 300))
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16")
    with torch.no_grad():
        model.layer.bias.fill_(2.0)
    fault = session.check(loss_of(model, batch())).faults[0]
    assert (fault.name, fault.site) == ("overflow", "after (mul)")
    assert fault.evidence["limit"] == 65504
    text = session.recipe.to_toml().replace('compute_dtype = "fp16"\n', fault.rule).split("[loss_scale]")[0]
    assert Recipe.from_toml(text).compute_dtype == "bf16"
    twin = Told(lambda s, h: (h * 300) * (h * 300))
    assert not prepare(twin, torch.optim.SGD(twin.parameters(), lr=0.1), "bf16").check(loss_of(twin, batch())).faults


BROKEN: dict[str, Callable[[object, Tensor], Tensor]] = {
    "root": lambda s, h: (h * 0).sqrt(),
    "where and log": lambda s, h: torch.where(h > 9, torch.log(h * 0), h),
    "norm of differences": lambda s, h: (h - h).square().sum(-1).sqrt(),
    "division": lambda s, h: torch.where(h > 9, h / (h * 0), h),
}
HEALTHY: dict[str, Callable[[object, Tensor], Tensor]] = {
    "root": lambda s, h: (h * 0 + 1e-6).sqrt(),
    "where and log": lambda s, h: torch.where(h > 9, torch.log(torch.where(h > 9, h, 1.0)), h * 0),
    "norm": lambda s, h: torch.linalg.vector_norm(h - h, dim=-1),
    "cosine": lambda s, h: torch.nn.functional.cosine_similarity(h, h * 0),
    "normalize": lambda s, h: torch.nn.functional.normalize(h * 0),
    "degree matrix": lambda s, h: h * torch.zeros(8).pow(-0.5).nan_to_num(posinf=0.0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_finite_forward_pass_with_a_broken_gradient(name: str) -> None:
    model = Told(BROKEN[name])
    found = check_step(model, loss_of(model, batch()))
    assert found.faults
    assert all(f.name in ("logarithm, root or division of zero", "gradient overflow") for f in found)
    assert found[0].site.startswith("after (")


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_twins_whose_intermediate_values_are_masked(name: str) -> None:
    model = Told(HEALTHY[name])
    assert names(check_step(model, loss_of(model, batch()))) == []


def flooded(dtype: torch.dtype | None) -> Told:
    """Values beyond every 16-bit range, in the recipe's dtype or in the author's own."""

    def squared(s: object, h: Tensor) -> Tensor:
        x = h if dtype is None else h.to(dtype)
        large = (x * 0 + 1) * (300.0 if x.dtype == FP16 else 1e30)
        return (large * (large + 1)).float().tanh()

    return Told(squared)


@pytest.mark.parametrize(
    ("recipe_name", "own", "remedy"),
    [
        ("fp16", None, "use recipe 'bf16'"),
        ("bf16", None, "no dtype below fp64 has a wider range"),
        ("bf16-true", torch.bfloat16, "no dtype below fp64 has a wider range"),
        ("bf16", FP16, "take the model's own cast to fp16 away"),
        ("mxfp8", FP16, "take the model's own cast to fp16 away"),
        ("mxfp8", None, "no dtype below fp64 has a wider range"),
        ("fp32", torch.bfloat16, "no dtype below fp64 has a wider range"),
    ],
)
def test_no_remedy_is_what_the_run_has_already(recipe_name: str, own: torch.dtype | None, remedy: str) -> None:
    model = flooded(own)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), recipe_name)
    faults = [f for f in session.check(loss_of(model, batch())).faults if f.name == "overflow"]
    assert faults
    assert all(f.remedy.startswith(remedy) for f in faults)
    assert {f.rule for f in faults} == ({'compute_dtype = "bf16"\n'} if recipe_name == "fp16" else {""})


@pytest.mark.parametrize("recipe_name", ["bf16", "fp32", "mxfp8"])
def test_a_cast_to_fp16_of_the_authors_own_near_its_limit(recipe_name: str) -> None:
    model = Told(lambda s, h: ((h * 0 + 1).half() * 2e4).float().tanh())
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe_name)
    (warning,) = session.check(loss_of(model, batch())).warnings
    assert (warning.name, warning.rule) == ("close to fp16's limit", "")
    assert f"take the model's own cast to fp16 away, which recipe {recipe_name} does not make" in warning.remedy


OVERFLOWS: dict[str, Callable[[object, Tensor], Tensor]] = {
    "small divisor": lambda s, h: (h + 2) / 1e-5,
    "small tensor": lambda s, h: (h + 2) / (h * 0 + 2e-5),
    "reciprocal": lambda s, h: (h * 0 + 1e-6).reciprocal(),
    "power": lambda s, h: (h * 0 + 300).pow(2.5),
    "norm": lambda s, h: h * (h * 0 + 4e4).norm(),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_what_overflows_met_no_zero(name: str) -> None:
    model = Told(OVERFLOWS[name]).half()
    found = check_step(model, loss_of(model, batch(dtype=FP16)))
    assert "logarithm, root or division of zero" not in [f.name for f in found]
    assert "overflow" in [f.name for f in found.faults]


@pytest.mark.parametrize("recipe_name", ["fp8", "mxfp8", "nvfp4"])
def test_what_a_broken_gradient_goes_through_is_not_told_beside_it(recipe_name: str) -> None:
    model = Told(lambda s, h: (h * 0).sqrt(), features=32)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe_name)
    faults = session.check(loss_of(model, batch(features=32))).faults
    assert [(f.name, f.site) for f in faults] == [("logarithm, root or division of zero", "after (sqrt, backward)")]


def test_bad_input_is_told_as_such() -> None:
    model = nn.Sequential(nn.Linear(8, 8))
    x = batch()
    x[1, 2] = float("nan")
    (fault,) = check_step(model, loss_of(model, x))
    assert (fault.name, fault.severity) == ("not finite", "fault")
    assert fault.site.startswith("0 (")
    assert "from outside" in fault.message


def gradient(scale: float) -> Callable[[nn.Module], Callable[[], Tensor]]:
    return lambda model: lambda: (model(ONE) * scale).sum()


def session_of(loss_scale: float | str, weight: float = 1.0) -> tuple[nn.Module, object]:
    model = scaled(weight)
    return model, prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "fp16", loss_scale=loss_scale)


def test_a_dynamic_scale_that_begins_too_high_is_ordinary() -> None:
    model, session = session_of("dynamic")
    (note,) = session.check(gradient(4.0)(model))
    assert (note.severity, note.name) == ("note", "gradient overflow")
    assert "ordinary" in note.message
    initial = tomllib.loads(note.rule)["loss_scale"]["initial"]
    assert 4.0 * initial < 65504 <= 4.0 * initial * 4
    assert not session.step(gradient(4.0)(model)()).applied  # so it is


def test_a_static_scale_that_is_too_high_is_a_fault() -> None:
    model, session = session_of(65536.0)
    (fault,) = session.check(gradient(4.0)(model)).faults
    assert fault.name == "gradient overflow"
    initial = tomllib.loads(fault.rule)["loss_scale"]["initial"]
    _, fits = session_of(initial)
    assert not fits.check(gradient(4.0)(fits.model)).faults


def test_a_gradient_that_no_scale_brings_into_fp16() -> None:
    model, session = session_of("dynamic")
    (fault,) = session.check(gradient(1e6)(model)).faults
    assert "at any loss scale" in fault.message
    assert fault.rule == ""


class Small(nn.Module):
    """Its gradients in fp16 have the magnitudes that it is given."""

    def __init__(self, dtype: torch.dtype = FP16) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16, bias=False)
        nn.init.eye_(self.layer.weight)
        self.to(dtype)

    def forward(self, x: Tensor, magnitudes: Tensor) -> Tensor:
        return (self.layer(x.to(self.layer.weight.dtype)).float() * magnitudes).sum()


@pytest.mark.parametrize(("lost", "severity"), [(16, "fault"), (8, "fault"), (4, "warning"), (1, None)])
def test_gradients_that_fp16_flushes_and_the_scale_that_keeps_them(lost: int, severity: str | None) -> None:
    magnitudes = torch.full((16,), 1e-3)
    magnitudes[:lost] = 1e-8  # below half of 2^-24
    model, x = Small(), torch.ones(1, 16)
    found = check_step(model, lambda: model(x, magnitudes))
    assert [f.severity for f in found] == ([] if severity is None else [severity])
    if severity is not None:
        (told,) = found
        assert (told.name, told.site) == ("gradients flushed to zero", "layer.weight (gradient)")
        assert told.evidence["share flushed"] == pytest.approx(lost / 16)
        initial = tomllib.loads(told.rule)["loss_scale"]["initial"]
        assert initial >= 4
        assert len(check_step(model, lambda: model(x, magnitudes), loss_scale=initial)) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_dtypes_flush_nothing(dtype: torch.dtype) -> None:
    model = Small(dtype)
    assert len(check_step(model, lambda: model(torch.ones(1, 16), torch.full((16,), 1e-8)))) == 0


def test_the_fp16_recipe_without_a_loss_scale_is_told_on_a_session() -> None:
    model = Small(torch.float32)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe("fp16"), loss_scale="none")
    (fault,) = session.check(lambda: model(torch.ones(1, 16), torch.full((16,), 1e-9)))
    assert fault.name == "gradients flushed to zero"
    assert fault.evidence["share flushed"] == 1.0


@pytest.mark.parametrize("recipe_name", ["fp8", "mxfp8", "nvfp4"])
def test_an_infinity_that_a_saturating_cast_would_hide(recipe_name: str) -> None:
    class Hides(nn.Module):
        def __init__(self, value: float) -> None:
            super().__init__()
            self.value, self.first, self.last = value, nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, x: Tensor) -> Tensor:
            return self.last((self.first(x) * self.value).exp().clamp(max=1e6))

    model = Hides(1e4)
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe_name)
    told = {f.name: f for f in session.check(lambda: model(torch.ones(32, 32)).square().mean()).faults}
    assert told["overflow"].site == "<model> (exp)"
    assert told["infinity made finite"].site == "<model> (clamp)"
    healthy = Hides(1.0)
    session = prepare(healthy, torch.optim.SGD(healthy.parameters(), lr=0.1), recipe_name)
    assert not session.check(lambda: healthy(torch.ones(32, 32)).square().mean()).faults
