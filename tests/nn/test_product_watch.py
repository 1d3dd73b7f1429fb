"""Products that are shown and otherwise left alone: torch's own, to the bit, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mixprec.nn import SeenProduct, convert
from mixprec.specs import LayerPrecision, Recipe, Rule


class Listing:
    """Lists the sites of what it sees, and lets it pass."""

    def __init__(self) -> None:
        self.sites: list[str] = []

    def product(self, seen: SeenProduct, y: Tensor) -> Tensor:
        self.sites.append(seen.site)
        return y


def test_watched_fp32_products_are_torchs_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 10))
    x = torch.randn(4, 3, 8, 8, requires_grad=True)
    wanted = torch.autograd.grad((y := model(x)).square().sum(), [x, *model.parameters()])
    conversion = convert(model, Recipe(name="all", rules=(Rule(precision=LayerPrecision.uniform("fp32")),)))
    with conversion.products_shown_to(listing := Listing()):
        found = model(x)
        gradients = torch.autograd.grad(found.square().sum(), [x, *model.parameters()])
    conversion.restore()
    assert listing.sites == ["0", "3"]
    assert torch.equal(found, y)
    assert all(torch.equal(a, b) for a, b in zip(gradients, wanted, strict=True))
