"""A training script in the shape of apex's ImageNet example, in miniature; only its import of ``amp`` has changed."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

from mixprec.compat import apex_amp as amp


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.layers = nn.Sequential(Block(width), Block(width))
        self.fc = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--opt-level", type=str)
    parser.add_argument("--keep-batchnorm-fp32", type=str, default=None)
    parser.add_argument("--loss-scale", type=str, default=None)
    return parser.parse_args(arguments)


def adjust_learning_rate(optimizer: torch.optim.Optimizer, lr: float, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr * min(1.0, (step + 1) / 10)


def main(arguments: list[str]) -> dict[str, object]:
    args = parse(arguments)
    torch.manual_seed(0)
    model = ResNet()
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=1e-4)
    model, optimizer = amp.initialize(
        model,
        optimizer,
        opt_level=args.opt_level,
        keep_batchnorm_fp32=args.keep_batchnorm_fp32,
        loss_scale=args.loss_scale,
    )
    criterion = nn.CrossEntropyLoss()
    digits = load_digits()
    images, labels = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        for i in range(0, 1024, 64):
            output = model(images[i : i + 64])
            loss = criterion(output, labels[i : i + 64])
            adjust_learning_rate(optimizer, args.lr, epoch * 16 + i // 64)
            optimizer.zero_grad()
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            output = model(images[1024:1536])
        best = max(best, (output.argmax(1) == labels[1024:1536]).float().mean().item())
    return {
        "state_dict": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "amp": amp.state_dict(optimizer),
        "best": best,
        "loss": loss.item(),
    }


if __name__ == "__main__":
    print(main(["--opt-level", "O1"])["best"])
