"""How much larger a batch does fp16 allow in the memory that fp32 takes? Forecast, then trained.

    python examples/resnet_larger_batch_fp16.py --batch 64 --steps 60 --out runs/resnet

The peak of an fp32 step of a residual network at `--batch` is forecast; it is the limit, and the largest batch of
16-bit recipes whose peak keeps it is searched: both without taking the memory. bf16 stands beside fp16, which keeps
in fp32 what could leave its range; `residual = "compute"` keeps sums in fp16 where their values fit: a forecast takes
it that all do. Then fp32 and that fp16 train on scikit-learn's digits at one
learning rate (yours may want to grow with the batch), and saved activations are measured. Each run has its page:
`report.html` in its folder in `--out`. Needs scikit-learn.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import mixprec
from mixprec.compare.workloads.resnet import Batch, ResNet, ResNetConfig, digit_loss, workload
from mixprec.planner import largest_batch, predict_memory
from mixprec.report import write_report
from mixprec.specs import Recipe, recipe

SGD = partial(torch.optim.SGD, lr=0.05, momentum=0.9)
WIDTHS = (16, 32)
FP16 = replace(recipe("fp16"), name="fp16-residual", residual="compute")


def main() -> None:
    options = _options()
    model, batch = ResNet(WIDTHS), data(options.batch)(0)
    limit = predict_memory(model, digit_loss, batch, "fp32", optimizer=SGD).peak
    print(f"fp32: batch {options.batch}, peak {limit:,} bytes (forecast)")
    for tried in (recipe("bf16"), recipe("fp16"), FP16):
        found = largest_batch(model, digit_loss, batch, tried, limit, optimizer=SGD, is_cpu=True)
        times = found.samples / options.batch
        print(f"{tried.name}: batch {found.samples} ({times:.2f} times), peak {found.peak:,} bytes (forecast)")
    train(recipe("fp32"), options.batch, options)
    train(FP16, found.samples, options)


def data(samples: int) -> Callable[[int], Batch]:
    """The batches of digits of a step, ``samples`` each."""
    return workload(0, "cpu", config=ResNetConfig(batch=samples)).batches


def train(chosen: Recipe, samples: int, options: argparse.Namespace) -> None:
    """Train the same initial network, and print the loss and what was saved for the backward pass."""
    torch.manual_seed(0)
    model, batches = ResNet(WIDTHS), data(samples)
    session = mixprec.prepare(model, SGD(model.parameters()), chosen, run=options.out / chosen.name)
    losses: list[Tensor] = []
    for step in range(options.steps):
        losses.append(digit_loss(model, batches(step)))
        session.step(losses[-1])
    saved = session.memory().saved_bytes
    session.restore()
    expected = predict_memory(ResNet(WIDTHS), digit_loss, batches(0), chosen, optimizer=SGD).saved_bytes
    print(f"{chosen.name}: batch {samples}, loss {losses[0].item():.4f} -> {losses[-1].item():.4f}", end=", ")
    print(f"saved activations {saved or 0:,} bytes (forecast {expected:,}), {(saved or 0) / samples:,.0f} a sample")
    print(f"report: {write_report(options.out / chosen.name)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How much larger a batch fp16 allows in the memory of fp32.")
    parser.add_argument("--batch", type=int, default=64, help="of fp32")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path("runs/resnet-fp16"), help="a folder for both runs, new")
    return parser.parse_args()


if __name__ == "__main__":
    main()
