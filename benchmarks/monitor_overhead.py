"""What watching costs: the monitor's own time over the time of a GPT's training step.

    python -m benchmarks.monitor_overhead [--steps N] [--threads N] [--out FILE]

The own time is measured where it is spent (in the hooks of steps, and in taking statistics inside of the passes), since
steps vary by more than what is to be seen; beside it stands the ratio of step times, watched and not, taken in turns.
"Default" is what one step in a hundred costs when it is sampled, and the other 99.
"""

import argparse
import copy
import json
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

import mixprec.monitor
from mixprec.compare.workloads.gpt import GPT, next_character_loss
from mixprec.monitor import Monitoring
from mixprec.nn import convert
from mixprec.specs import recipe

from ._machine import machine
from .training_step import CONFIG, VOCABULARY, Batch

TARGETS = {"default": 0.02, "every site, every step": 0.20, "flight recorder": 0.01}
DEFAULT_EVERY = Monitoring().every


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of a step: in all, and those of watching; medians."""

    step: float
    own: float
    recorder: float


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    base = GPT(vocabulary=VOCABULARY, config=CONFIG)
    ids = torch.randint(0, VOCABULARY, (CONFIG.batch, CONFIG.context), generator=torch.Generator().manual_seed(0))
    batch = (ids, ids.roll(-1, 1))
    print(f"GPT of {CONFIG.layers} layers, width {CONFIG.width}, {ids.numel()} tokens: the monitor's own time")
    print(f"{'':10}{'':26}{'own':>8}{'target':>8}{'step':>10}")
    rows: list[dict[str, object]] = []
    for name in ("fp32", "bf16", "mxfp8"):
        rows += _rows(name, _converted(base, name), batch, options.steps)
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    config = asdict(CONFIG)
    path.write_text(json.dumps({"machine": machine(options.threads), "config": config, "rows": rows}, indent=1) + "\n")
    print(f"wrote {path}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The monitor's own time over a training step's.")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", default="runs/benchmarks/monitor_overhead.json")
    return parser.parse_args()


def _converted(base: nn.Module, name: str) -> nn.Module:
    model = copy.deepcopy(base)
    if name != "fp32":
        convert(model, recipe(name))
    return model


def _rows(name: str, model: nn.Module, batch: Batch, steps: int) -> list[dict[str, object]]:
    never, always = (_cost(model, batch, Monitoring(every=every), steps) for every in (0, 1))
    plain = never.step - never.own
    own = {
        "default": never.own + (always.own - never.own) / DEFAULT_EVERY,
        "every site, every step": always.own,
        "flight recorder": never.recorder,
    }
    for what, seconds in own.items():
        share = f"{100 * seconds / plain:7.2f}%"
        print(f"{name:10}{what:26}{share}{100 * TARGETS[what]:7.0f}%{1e3 * plain:8.0f} ms")
    return [
        {"recipe": name, "what": what, "own": seconds, "step": plain, "target": TARGETS[what]}
        for what, seconds in own.items()
    ]


def _cost(model: nn.Module, batch: Batch, options: Monitoring, steps: int) -> Cost:
    """Of steps of a watched model, the first left out."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    costs: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as run, mixprec.monitor(model, optimizer, options, run=run) as monitor:
        for _ in range(steps + 1):
            own, recorded = monitor.own_seconds, 0.0 if monitor.recorder is None else monitor.recorder.own_seconds
            started = time.perf_counter()
            monitor.loss(next_character_loss(model, batch)).backward()
            optimizer.step()
            optimizer.zero_grad()
            ended, recorder = time.perf_counter(), monitor.recorder
            costs.append((
                ended - started,
                monitor.own_seconds - own,
                0.0 if recorder is None else recorder.own_seconds - recorded,
            ))  # fmt: skip
    step, watching, recording = (statistics.median(values) for values in zip(*costs[1:], strict=True))
    return Cost(step=step, own=watching, recorder=recording)


if __name__ == "__main__":
    main()
