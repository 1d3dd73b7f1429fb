"""Case H9 seen before training: 16-bit angles and positions; complex numbers; healthy twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from mixprec.monitor import check_step
from mixprec.training import prepare
from tests.monitor.check.planted import Rotary, Told, autocast_loss, batch, loss_of

BF16, FP16 = torch.bfloat16, torch.float16


@pytest.mark.parametrize(("dtype", "error"), [(BF16, 16.0), (FP16, 2.0)])
def test_h9_names_the_table_and_the_positions(dtype: torch.dtype, error: float) -> None:
    model = Rotary().to(dtype)
    told = {f.name: f for f in check_step(model, lambda: model().float().mean())}
    assert told.keys() == {"angles in 16 bits", "positions in 16 bits"}
    assert told["angles in 16 bits"].severity == "fault"
    assert told["angles in 16 bits"].site == "<model> (cos)"
    assert told["angles in 16 bits"].evidence["error [rad]"] == error
    # Of 4,096 positions bf16 holds 769 (256 + 4 binades of 128, and 4096 is none), fp16 3,073.
    exact = torch.arange(4096).float()
    assert told["positions in 16 bits"].evidence["lost"] == int((exact.to(dtype).float() != exact).sum())


@pytest.mark.parametrize("recipe", ["bf16", "fp16", "mxfp8", "nvfp4"])
def test_h9_under_a_recipe_is_healthy_for_the_table_stays_fp32(recipe: str) -> None:
    model = Rotary()
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), recipe)
    assert [f for f in session.check(lambda: model().float().mean()) if f.severity != "note"] == []


@pytest.mark.parametrize(("length", "severity"), [(16, None), (17, "warning"), (257, "fault")])
def test_the_threshold_of_an_angle(length: int, severity: str | None) -> None:
    model = Rotary(length=length).bfloat16()
    found = [f.severity for f in check_step(model, lambda: model().float().mean()) if f.name == "angles in 16 bits"]
    assert found == ([] if severity is None else [severity])


class Product(nn.Module):
    """Angles by a product that autocast takes to 16 bits, and their cosine in fp32."""

    def __init__(self, angles: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.angles = nn.Parameter(torch.ones(4)), angles
        self.register_buffer("inv_freq", 1.0 / 1e4 ** (torch.arange(0, 8, 2).float() / 8))

    def forward(self) -> Tensor:
        t = torch.arange(512).float()
        return self.angles(t, self.inv_freq).float().cos() * self.weight


def test_a_product_under_autocast_rounds_the_angles() -> None:
    model = Product(lambda t, f: t[:, None] @ f[None, :])

    def step() -> Tensor:
        with torch.autocast("cpu", BF16):
            return model().mean()

    assert "angles in 16 bits" in [f.name for f in check_step(model, step).faults]


def test_an_outer_product_that_stays_fp32_is_healthy() -> None:
    model = Product(torch.outer)

    def step() -> Tensor:
        with torch.autocast("cpu", BF16):
            return model().mean()

    assert len(check_step(model, step)) == 0


RECIPES = ("fp32", "bf16", "bf16-true", "fp16", "fp8", "mxfp8")


def table_of(make: Callable[[int, int], dict[str, Tensor]], rows: Callable[..., Tensor], length: int = 512) -> Told:
    """A layer whose output is multiplied by one row of a table."""
    return Told(lambda s, h: h[:, :1] * rows(s, h)[-1], features=16, **make(length, 16))


def frequencies(dim: int) -> Tensor:
    return 1.0 / 1e4 ** (torch.arange(0, dim, 2).float() / dim)


def angles(n: int, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.outer(torch.arange(n).to(dtype), frequencies(dim).to(dtype))


def positions(n: int) -> Tensor:
    return torch.arange(n).float()[:, None]


# What has 16 bits before its cosine is taken, in all the ways that people write.
WRONG: dict[str, tuple[Callable[[int, int], dict[str, Tensor]], Callable[..., Tensor]]] = {
    "bf16 frequencies, fp32 positions": (
        lambda n, d: {"f": frequencies(d).bfloat16()},
        lambda s, h: (positions(512) * s.f).cos(),
    ),
    "bf16 frequencies, widened": (
        lambda n, d: {"f": frequencies(d).bfloat16()},
        lambda s, h: (positions(512) @ s.f.float()[None]).cos(),
    ),
    "bf16 frequencies, positions as they are": (
        lambda n, d: {"f": frequencies(d).bfloat16()},
        lambda s, h: torch.outer(torch.arange(512).type_as(s.f), s.f).cos(),
    ),
    "bf16 positions, fp32 frequencies": (
        lambda n, d: {"f": frequencies(d), "t": torch.arange(n).bfloat16()},
        lambda s, h: (s.t[:, None] * s.f).sin(),
    ),
    "bf16 positions, widened": (
        lambda n, d: {"f": frequencies(d), "t": torch.arange(n).bfloat16()},
        lambda s, h: (s.t.float()[:, None] * s.f).sin(),
    ),
    "bf16 angles": (lambda n, d: {"a": angles(n, d).bfloat16()}, lambda s, h: s.a.float().cos()),
    "angles cast to bf16": (lambda n, d: {"a": angles(n, d)}, lambda s, h: s.a.bfloat16().cos()),
    "polar": (
        lambda n, d: {"f": frequencies(d).bfloat16()},
        lambda s, h: torch.polar(torch.ones(512, 8), (positions(512) * s.f).float()).real,
    ),
    "table of bf16 angles": (lambda n, d: {"c": angles(n, d, BF16).cos()}, lambda s, h: s.c * 1),
    "table of bf16 angles, in fp32": (lambda n, d: {"c": angles(n, d, BF16).float().sin()}, lambda s, h: s.c * 1),
    "table of bf16 angles, one for each head": (
        lambda n, d: {"c": angles(n, d, BF16).cos()[None, :, None]},
        lambda s, h: (s.c * 1)[0, :, 0],
    ),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", WRONG)
def test_a_table_in_16_bits_is_found_under_every_recipe(name: str, recipe: str) -> None:
    model = table_of(*WRONG[name])
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), recipe)
    faults = session.check(loss_of(model, batch(16))).faults
    assert [f.name for f in faults] == ["angles in 16 bits"]
    assert faults[0].evidence["dtype"] == "bf16"


SOUND: dict[str, tuple[Callable[[int, int], dict[str, Tensor]], Callable[..., Tensor]]] = {
    "cosines cast": (lambda n, d: {"c": angles(n, d).cos().bfloat16()}, lambda s, h: s.c * 1),
    "cosines cast to fp16": (lambda n, d: {"c": angles(n, d).cos().half()}, lambda s, h: s.c * 1),
    "cosines cast in the pass": (lambda n, d: {"a": angles(n, d)}, lambda s, h: s.a.cos().to(h.dtype)),
    "short bf16 positions": (
        lambda n, d: {"f": frequencies(d), "t": torch.arange(256).bfloat16()},
        lambda s, h: (s.t[:, None] * s.f).sin(),
    ),
    "bf16 powers of two": (
        lambda n, d: {"f": (2.0 ** -torch.arange(8)).bfloat16()},
        lambda s, h: (positions(512) * s.f).sin(),
    ),
    "integers": (lambda n, d: {"f": frequencies(d), "t": torch.arange(n)}, lambda s, h: (s.t[:, None] * s.f).sin()),
}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_table_is_told_under_no_recipe(name: str, recipe: str) -> None:
    model = table_of(*SOUND[name])
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), recipe)
    found = session.check(loss_of(model, batch(16)))
    assert [f for f in found if f.severity != "note"] == []


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_the_table_that_fp16_positions_spoil_is_longer(dtype: torch.dtype) -> None:
    for length, spoilt in ((300, False), (1000, dtype == BF16), (4096, True)):
        model = table_of(lambda n, d: {"c": angles(n, d, dtype).cos()}, lambda s, h: s.c * 1, length)
        faults = check_step(model, loss_of(model, batch(16))).faults
        assert [(f.name, f.evidence["dtype"]) for f in faults] == (
            [("angles in 16 bits", "bf16" if dtype == BF16 else "fp16")] if spoilt else []
        )
        assert not spoilt or "the buffer after.c" in faults[0].message


def distances(n: int) -> Tensor:
    return -(torch.arange(n)[:, None] - torch.arange(n)).abs()


@pytest.mark.parametrize("recipe", RECIPES)
def test_stored_positions_in_16_bits(recipe: str) -> None:
    # Above 256 every second one is lost, above 512 three of four.
    for stored, lost in (
        (torch.arange(600).bfloat16(), 128 + 66),
        (distances(600).bfloat16(), 128 + 66),
        (torch.arange(256).bfloat16(), 0),
        (distances(257).bfloat16(), 0),
        (torch.linspace(-300, 300, 600).bfloat16(), 0),
    ):
        model = Told(lambda s, h: h * (s.d.reshape(-1)[-1] * 1e-4), d=stored)
        session = prepare(model, torch.optim.SGD(model.parameters(), lr=1.0), recipe)
        found = [f for f in session.check(loss_of(model, batch())) if f.name == "positions in 16 bits"]
        assert [(f.name, f.evidence["lost"]) for f in found] == ([("positions in 16 bits", lost)] if lost else [])
        assert not lost or "the buffer after.d" in found[0].message


def test_time_steps_that_are_cast_to_bf16() -> None:
    def after(times: list[float]) -> Told:
        steps = torch.tensor(times)
        return Told(lambda s, h: h * (steps.to(BF16)[:, None] * frequencies(16)).sin())

    wrong = after([1.0, 999.0, 500.0, 20.0])
    assert [f.name for f in check_step(wrong, loss_of(wrong, batch())).faults] == ["angles in 16 bits"]
    exact = after([1.0, 1000.0, 500.0, 20.0])
    assert len(check_step(exact, loss_of(exact, batch()))) == 0


COUNTED: dict[str, tuple[Callable[[nn.Module, Tensor], Tensor], int]] = {
    "arange": (lambda s, h: h * torch.arange(600, dtype=h.dtype)[-1] * 1e-4, 600),
    "cast of integers": (lambda s, h: h * torch.arange(600).to(h.dtype)[-1] * 1e-4, 600),
    "cast of a run": (lambda s, h: h * torch.arange(600).float().to(h.dtype)[-1] * 1e-4, 600),
    "cumsum": (lambda s, h: h * torch.ones(600, dtype=h.dtype).cumsum(0)[-1] * 1e-4, 600),
}


@pytest.mark.parametrize("name", COUNTED)
def test_counted_numbers_in_bf16(name: str) -> None:
    model = Told(COUNTED[name][0]).bfloat16()
    found = [f for f in check_step(model, loss_of(model, batch(dtype=BF16))) if f.severity != "note"]
    assert [f.name for f in found] == ["positions in 16 bits"]
    assert found[0].site.startswith("after (")
    wide = Told(COUNTED[name][0])
    assert len(check_step(wide, loss_of(wide, batch()))) == 0


@pytest.mark.parametrize("name", COUNTED)
def test_the_bf16_recipe_keeps_counts(name: str) -> None:
    model = Told(COUNTED[name][0])
    session = prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), "bf16")
    told = [f.name for f in session.check(loss_of(model, batch()))]
    # What is a float already when it is cast is cast as the author says.
    assert told == (["positions in 16 bits"] if name == "cast of a run" else [])


def test_pixels_and_short_runs_are_healthy() -> None:
    pixels = torch.arange(256).reshape(32, 8).float()
    model = nn.Linear(8, 8)
    assert len(check_step(model, autocast_loss(model, pixels / 255 * 300, BF16))) == 0
    assert len(check_step(model, autocast_loss(model, pixels, BF16))) == 0


def test_a_complex_tensor_that_is_cast_to_a_real_dtype() -> None:
    polar = torch.polar(torch.ones(2), torch.tensor([1.0, 2.0]))
    model = Told(lambda s, h: h * s.freqs.to(h.dtype).sum(), freqs=polar)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        (fault,) = check_step(model, loss_of(model, batch()))
    assert (fault.name, fault.severity, fault.site) == ("complex cast to real", "fault", "after (cast)")
    healthy = Told(lambda s, h: h * torch.view_as_real(s.freqs).sum(), freqs=polar)
    assert len(check_step(healthy, loss_of(healthy, batch()))) == 0
    session = prepare(healthy, torch.optim.SGD(healthy.parameters(), lr=0.1), "bf16")
    assert len(session.check(loss_of(healthy, batch()))) == 0


def test_numpy_of_bf16_is_told_with_the_remedy() -> None:
    model = Told(lambda s, h: h * float(h.detach().numpy().sum())).bfloat16()
    (fault,) = check_step(model, loss_of(model, batch(dtype=BF16)))
    assert (fault.name, fault.severity) == ("numpy of 16 bits", "fault")
    assert "x.float().numpy()" in fault.remedy
    healthy = Told(lambda s, h: h * float(h.detach().float().numpy().sum())).bfloat16()
    assert len(check_step(healthy, loss_of(healthy, batch(dtype=BF16)))) == 0
