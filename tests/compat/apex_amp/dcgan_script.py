"""A training script in the shape of apex's DCGAN example, in miniature; only its import of ``amp`` has changed."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from mixprec.compat import apex_amp as amp


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
            nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 1, 4, 1, 0, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.main(x).view(-1, 1).squeeze(1)


def weights_init(module: nn.Module) -> None:
    if "Conv" in type(module).__name__:
        nn.init.normal_(module.weight, 0.0, 0.02)


def main(opt_level: str, steps: int = 12, eps: float = 1e-8) -> dict[str, list[float]]:
    torch.manual_seed(0)
    net_g, net_d = Generator(), Discriminator()
    net_g.apply(weights_init)
    net_d.apply(weights_init)
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=2e-4, betas=(0.5, 0.999), eps=eps)
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=2e-4, betas=(0.5, 0.999), eps=eps)
    [net_d, net_g], [optimizer_d, optimizer_g] = amp.initialize(
        [net_d, net_g], [optimizer_d, optimizer_g], opt_level=opt_level, num_losses=3
    )
    criterion = nn.BCEWithLogitsLoss()
    images = torch.tensor(load_digits().images, dtype=torch.float32)[:, None] / 8 - 1
    history: dict[str, list[float]] = {"d_real": [], "d_fake": [], "g": [], "weight": []}
    for i in range(steps):
        net_d.zero_grad()
        real = images[32 * i : 32 * (i + 1)]
        label = torch.ones(32)
        error_real = criterion(net_d(real), label)
        with amp.scale_loss(error_real, optimizer_d, loss_id=0) as scaled:
            scaled.backward()
        fake = net_g(torch.randn(32, 16, 1, 1))
        label = torch.zeros(32)
        error_fake = criterion(net_d(fake.detach()), label)
        with amp.scale_loss(error_fake, optimizer_d, loss_id=1) as scaled:
            scaled.backward()
        optimizer_d.step()

        net_g.zero_grad()
        label = torch.ones(32)
        error_g = criterion(net_d(fake), label)
        with amp.scale_loss(error_g, optimizer_g, loss_id=2) as scaled:
            scaled.backward()
        optimizer_g.step()
        for name, error in (("d_real", error_real), ("d_fake", error_fake), ("g", error_g)):
            history[name].append(error.item())
        history["weight"].append(next(iter(amp.master_params(optimizer_d))).detach().double().norm().item())
    saved = amp.state_dict(optimizer_g)
    history["scales"] = [saved[f"loss_scaler{i}"]["loss_scale"] for i in range(3)]
    return history


if __name__ == "__main__":
    print(main("O1"))
