"""A training step of a ResNet-18 for 32x32 images under each recipe, as a multiple of the fp32 step.

    python -m benchmarks.convolution_step [--rounds N] [--threads N] [--batch N] [--out FILE]

A step is forward, backward and SGD with momentum. Each recipe takes turns with fp32, and a ratio is taken within its
round. Saved activations are what autograd keeps of one forward pass, parameters not counted, over fp32's.
"""

import argparse
import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mixprec.nn import convert
from mixprec.specs import recipe

from ._machine import machine
from ._memory import saved_bytes
from ._timing import measure

TARGET = 1.2
RECIPES = ("bf16", "fp8", "fp8-delayed", "mxfp8", "fp8-block", "nvfp4")


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut (He et al., arXiv:1512.03385)."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        is_same = stride == 1 and channels == out
        shortcut = (nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.shortcut = nn.Identity() if is_same else nn.Sequential(*shortcut)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet18(nn.Module):
    """Eight blocks of 64 to 512 channels behind a 3x3 stem."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
        self.blocks = nn.ModuleList(Block(a, b, 1 if a == b else 2) for a, b in itertools.pairwise(widths))
        self.fc = nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.fc(x.mean((2, 3)))


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    base = ResNet18()
    batch = torch.randn(options.batch, 3, 32, 32), torch.randint(0, 10, (options.batch,))
    fp32, saved = _step(base, batch), saved_bytes(base, lambda m: _loss(m, batch))
    rows: list[dict[str, object]] = []
    print(f"ResNet-18, batch {options.batch} of 32x32")
    print(f"{'':26}{'time':>7}{'quartiles':>16}{'target':>8}{'saved':>8}")
    for name in RECIPES:
        model = copy.deepcopy(base)
        convert(model, recipe(name))
        timing = measure({"fp32": fp32, name: _step(model, batch)}, "fp32", options.rounds)[name]
        share = saved_bytes(model, lambda m: _loss(m, batch)) / saved
        spread = f"{timing.low:.2f} .. {timing.high:.2f}"
        print(f"{name:26}{timing.ratio:7.3f}{spread:>16}{TARGET:8.2f}{share:8.3f}")
        rows.append({"name": name, "saved": share, "time_target": TARGET, **asdict(timing)})
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": machine(options.threads), "batch": options.batch, "rows": rows}
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {path}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Convolutional training steps as multiples of the fp32 step.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", default="runs/benchmarks/convolution_step.json")
    return parser.parse_args()


def _loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(batch[0]), batch[1])


def _step(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Callable[[], object]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        _loss(model, batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()
