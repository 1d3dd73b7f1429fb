"""What the Python blocks of the pages suppose: the model, the optimizer and the data that a reader has already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn

import mixprec

Names = dict[str, object]
BATCH, WIDTH = 8, 16


class Loader:
    """A few batches, as often as they are asked for; with a place that a checkpoint keeps."""

    def __init__(self) -> None:
        self.taken = 0

    def __next__(self) -> tuple[Tensor, Tensor]:
        self.taken += 1
        x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(self.taken))
        return x, x.roll(1, dims=1)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (next(self) for _ in range(3))

    def state_dict(self) -> dict[str, int]:
        return {"taken": self.taken}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.taken = state["taken"]


class Inputs(Loader):
    """The same without targets."""

    def __next__(self) -> Tensor:  # type: ignore[override]
        return super().__next__()[0]


class Gan(nn.ModuleDict):
    """A generator ``g`` and a discriminator ``d``."""

    def __init__(self) -> None:
        super().__init__({"g": nn.Linear(WIDTH, WIDTH), "d": nn.Linear(WIDTH, WIDTH)})

    def forward(self, x: Tensor) -> Tensor:
        return self["d"](self["g"](x))


def names(page: str, folder: Path) -> Names:
    """By the page's path from the root of the repository; ``folder`` is where its blocks run."""
    torch.manual_seed(0)
    return _of_all() | _OF_PAGES.get(page, _nothing)(folder)


def _of_all() -> Names:
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = Loader()
    x, y = next(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (step + 1))
    return {
        "torch": torch,
        "mixprec": mixprec,
        "model": model,
        "optimizer": optimizer,
        "schedule": schedule,
        "scheduler": schedule,
        "loss_fn": nn.functional.mse_loss,
        "loader": loader,
        "x": x,
        "y": y,
    }


def _nothing(folder: Path) -> Names:
    return {}


def _checkpoints(folder: Path) -> Names:
    return {"MyLoader": Inputs}


def _compare(folder: Path) -> Names:
    given = _of_all()
    model, optimizer = given["model"], given["optimizer"]
    assert isinstance(model, nn.Module)
    assert isinstance(optimizer, torch.optim.Optimizer)
    session = mixprec.prepare(model, optimizer, "bf16")
    session.step(model(torch.ones(BATCH, WIDTH)).square().mean())
    held = {"model": model, "optimizer": optimizer, "session": session}
    torch.save({name: each.state_dict() for name, each in held.items()}, folder / "last.pt")
    return {"checkpoint": folder / "last.pt"}


def _engines(folder: Path) -> Names:
    from .supposed.my import Model

    return {"model": Model()}


def _estimate(folder: Path) -> Names:
    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return model(batch).square().mean()

    return {"loss": loss, "batch": torch.ones(BATCH, WIDTH), "make_optimizer": torch.optim.AdamW}


def _session(folder: Path) -> Names:
    model = Gan()
    split = {"muon": model["g"], "adamw": model["d"], "opt_g": model["g"], "opt_d": model["d"]}
    made: Names = {name: torch.optim.SGD(part.parameters(), lr=0.01) for name, part in split.items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    return made | {
        "model": model,
        "optimizer": optimizer,
        "schedule": schedule,
        "generator": model["g"],
        "discriminator": model["d"],
        "loss_d": lambda real, fake: fake.mean() - real.mean(),
        "loss_g": lambda fake: -fake.mean(),
    }


def _locator(folder: Path) -> Names:
    model = nn.Linear(WIDTH, WIDTH)
    return {"model": model, "session": mixprec.prepare(model, torch.optim.SGD(model.parameters()), "fp16")}


def _of_watching(folder: Path) -> Names:
    return {"scaler": torch.amp.GradScaler("cpu"), "norm": torch.tensor(1.0), "step": lambda x, y: (x - y).norm()}


_OF_PAGES: Mapping[str, Callable[[Path], Names]] = MappingProxyType(
    {
        "docs/checkpoints.md": _checkpoints,
        "docs/compare.md": _compare,
        "docs/engines.md": _engines,
        "docs/estimate.md": _estimate,
        "docs/monitor/locator.md": _locator,
        "docs/monitor/index.md": _of_watching,
        "docs/monitor/where-to-look.md": _of_watching,
        "docs/session.md": _session,
    }
)
