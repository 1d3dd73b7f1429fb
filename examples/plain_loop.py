"""An ordinary PyTorch training loop, in any precision: three lines differ from the loop that you have.

    python examples/plain_loop.py --recipe bf16 --steps 200 --out runs/plain

A small network learns a smooth function of 16 numbers. The loss is printed ten times, then what ran in which format
(measured). The run folder gets a page of the run: `report.html`.
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import mixprec
from mixprec.report import write_report


def main() -> None:
    options = _options()
    torch.manual_seed(options.seed)
    teacher = torch.randn(16, 1)
    model = nn.Sequential(nn.Linear(16, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    session = mixprec.prepare(model, optimizer, options.recipe, clip_norm=1.0, run=options.out)
    print(session)
    for step in range(options.steps):
        x = torch.randn(256, 16)
        loss = nn.functional.mse_loss(model(x), torch.sin(x @ teacher / 4))
        result = session.step(loss)  # backward, finite check, clipping, update, zero_grad
        if not result.applied:
            print(f"step {step}: skipped, {result.reason}")
        if step % max(1, options.steps // 10) == 0 or step == options.steps - 1:
            print(f"step {step:5d}  loss {loss.item():.4f}")
    print(session.audit())
    session.restore()  # the model is an ordinary one again, and the run folder is complete
    print(f"report: {write_report(options.out)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="An ordinary training loop, in any precision.")
    parser.add_argument("--recipe", default="auto", help="a name that `mixprec recipes` lists, or a TOML file")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/plain-loop"), help="the run folder, new")
    return parser.parse_args()


if __name__ == "__main__":
    main()
