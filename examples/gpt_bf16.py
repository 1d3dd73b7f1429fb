"""A GPT in bf16 beside fp32: tokens per second, saved activations and the loss of both, measured.

    python examples/gpt_bf16.py --steps 40 --out runs/gpt-bf16

Both train the same initial model on the same batches, on a GPU with `--device cuda`. Tokens per second come from the
median step, the first three left out. Where a device does not multiply bf16 the values are exact and the time is that
of emulation: the row says how much of the products was which. Each run has its page: `report.html` in
its folder in `--out`.
"""

import argparse
import statistics
import time
from pathlib import Path

import mixprec
from mixprec.compare.workloads.gpt import GPTConfig, workload
from mixprec.report import write_report

RECIPES = ("fp32", "bf16")


def main() -> None:
    options = _options()
    print(f"{'recipe':8}{'loss':>9}{'tokens/s':>11}{'saved activations':>21}  engines of the products")
    for recipe in RECIPES:
        print(train(recipe, options), flush=True)
    for recipe in RECIPES:
        print(f"report: {write_report(options.out / recipe)}")


def train(recipe: str, options: argparse.Namespace) -> str:
    """Train under a recipe; its row of the table."""
    config = GPTConfig(width=options.width, layers=options.layers, context=options.context, batch=options.batch)
    job = workload(0, options.device, steps=options.steps, config=config)  # the same weights and data each time
    session = mixprec.prepare(
        job.model, job.optimizer(job.model.parameters()), recipe, clip_norm=1.0, run=options.out / recipe
    )
    seconds: list[float] = []
    value = float("nan")
    for step in range(options.steps):
        batch = job.batches(step)
        start = time.perf_counter()
        loss = job.loss(job.model, batch)
        session.step(loss)
        value = loss.item()  # waits for the device
        seconds.append(time.perf_counter() - start)
    rate = options.batch * options.context / statistics.median(seconds[3:])
    saved = session.memory().saved_bytes or 0
    engines = ", ".join(f"{engine} {share:.0%}" for engine, share in session.audit().engines.items())
    session.restore()
    return f"{recipe:8}{value:9.4f}{rate:11,.0f}{saved:15,} bytes  {engines}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A GPT in bf16 beside fp32.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("runs/gpt-bf16"), help="a folder for both runs, new")
    for name, default in {"steps": 40, "width": 256, "layers": 4, "context": 128, "batch": 8}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if options.steps < 4:
        parser.error(f"--steps must be at least 4, for the first three are not timed; got {options.steps}")
    return options


if __name__ == "__main__":
    main()
