"""Predicted step times beside measured ones, on this machine as `mixprec calibrate` measures it.

    python -m benchmarks.step_time [--hardware FILE] [--rounds N] [--jobs gpt,vit] [--terms] [--out FILE]

A step is the loss, ``Session.step`` and AdamW of mixprec.optim, with one thread. The recipes of a job take turns, and
each sample lies between two runs of the stopwatch's reference, at whose speed the machine was calibrated: both figures
are of the same speed, though the machine's own may vary by half. ``measured`` is that, ``as it ran`` the plain median
of the process's time. Without ``--hardware`` the machine is calibrated first.
"""

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch

from mixprec.hardware import Hardware, load_hardware
from mixprec.optim import AdamW
from mixprec.planner import Inventory, StepTime, estimate_time, take_inventory
from mixprec.planner.calibrate import Stopwatch, calibrate
from mixprec.specs import recipe
from mixprec.training import prepare

from ._machine import machine
from ._step_jobs import JOBS, Job

RECIPES = ("fp32", "bf16", "mxfp8", "nvfp4")
TARGET = 0.25
Row = dict[str, object]
adamw = partial(AdamW, lr=1e-4)


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    start = time.perf_counter()
    hardware = load_hardware(Path(options.hardware)) if options.hardware else calibrated()
    seconds = 0.0 if options.hardware else time.perf_counter() - start
    print(f"calibrated in {seconds:.0f} s" if seconds else f"calibrated before: {options.hardware}")
    rows: list[Row] = []
    for name in options.jobs.split(","):
        rows += measure_job(name, hardware, options.rounds, terms=options.terms)
    off = [row["name"] for row in rows if abs(float(str(row["ratio"])) - 1) > TARGET]
    print(
        f"within {TARGET:.0%}: {len(rows) - len(off)} of {len(rows)}"
        + (f"; not: {', '.join(map(str, off))}" if off else "")
    )
    path = Path(options.out)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(1), "calibration_seconds": seconds, "rows": rows}, indent=1) + "\n")
    print(f"wrote {path}")


def calibrated() -> Hardware:
    """This machine, as ``mixprec calibrate`` measures it."""
    return calibrate(report=print, stepper=lambda model, optimizer: prepare(model, optimizer, "fp32").step)


def measure_job(name: str, hardware: Hardware, rounds: int, *, terms: bool = False) -> list[Row]:
    """Predict and measure a job's step under each recipe; prints and returns a row for each."""
    torch.manual_seed(0)
    model, loss, batch = job = JOBS[name]()
    inventory = take_inventory(model, loss, batch, optimizer=adamw)
    predicted = {each: estimate_time(inventory, recipe(each), hardware) for each in RECIPES}
    steps = {each: make_step(job, each) for each in RECIPES}
    reference = hardware.measured.reference if hardware.measured is not None else None
    plain: dict[str, list[float]] = {each: [] for each in RECIPES}
    watch = Stopwatch(samples=rounds, reference=reference)
    calls = [_noting(step, plain[each]) for each, step in steps.items()]
    found = dict(zip(RECIPES, watch.seconds(*calls), strict=True))
    rows = [_row(name, each, predicted[each], found[each], plain[each]) for each in RECIPES]
    if terms:
        for each, estimate in predicted.items():
            print(f"  {each}: " + ", ".join(f"{k} {v * 1e3:.2f}" for k, v in _by_kind(estimate, inventory).items()))
    return rows


def make_step(job: Job, chosen: str) -> Callable[[], object]:
    """A training step of a copy of the job's model under a recipe."""
    model, loss, batch = copy.deepcopy(job[0]).train(), job[1], job[2]
    session = prepare(model, adamw(model.parameters()), recipe(chosen))
    return lambda: session.step(loss(model, batch))


def _noting(step: Callable[[], object], into: list[float]) -> Callable[[], None]:
    def call() -> None:
        start = time.process_time()
        step()
        into.append(time.process_time() - start)

    return call


def _row(name: str, chosen: str, predicted: StepTime, measured: float, plain: Iterable[float]) -> Row:
    ratio, ran = predicted.seconds / measured, statistics.median(plain)
    told = f"{predicted.seconds * 1e3:8.2f} predicted{measured * 1e3:8.2f} measured{ran * 1e3:8.2f} as it ran, ms"
    print(f"{name:8}{chosen:8}{told}   ratio {ratio:.2f}", flush=True)
    return {
        "name": f"{name} {chosen}",
        "predicted": predicted.seconds,
        "measured": measured,
        "ratio": ratio,
        "as_it_ran": ran,
        "by_bound": dict(predicted.by_bound()),
    }


def _by_kind(estimate: StepTime, inventory: Inventory) -> dict[str, float]:
    """Seconds by what is done: products by layer and pass, casts by layer, operators by name; the largest first."""
    kinds = {product.site: product.kind for product in inventory.products}
    found: dict[str, float] = {}
    for term in estimate.terms:
        kind = f"{kinds[term.site]} {term.operation}" if term.engine or term.bound == "cast" else term.operation
        found[kind] = found.get(kind, 0.0) + term.seconds
    return dict(sorted(found.items(), key=lambda pair: -pair[1])[:14])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Predicted step times beside measured ones.")
    parser.add_argument("--hardware", help="a file that mixprec calibrate wrote, with one thread")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--terms", action="store_true", help="print what the predictions are made of")
    parser.add_argument("--out", default="runs/benchmarks/step_time.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
