"""What plans lose beside structural defaults, ranking by output error and uniform formats, at equal average bits.

    python -m benchmarks.plan_quality [--workload gpt|resnet] [--layers N] [--steps N] [--seeds N] [--out FILE]

A seed is a training run of its own; every way to choose is measured on the same weights and the same held-out data, so
that the differences are paired. Writes JSON, which ``--chart`` makes a figure of.
"""

import argparse
import json
from pathlib import Path

import torch

from mixprec.records import Gap

from ._interval_chart import Bar, interval_chart
from ._machine import machine
from ._plan_study import STUDIES, changes, measure, source_of


def main() -> None:
    options = _options()
    if options.chart:
        rows = json.loads(Path(options.out).read_text())["rows"]
        Path(options.chart).write_text(_chart(rows))
        print(f"wrote {options.chart}")
        return
    torch.set_num_threads(options.threads)
    rows: list[dict[str, object]] = []
    source = source_of(options.workload, options.layers, options.steps)
    for seed in range(options.seeds):
        measured = measure(source, options.steps, seed)
        cost = measured.scores.seconds / measured.scores.step_seconds
        for study in STUDIES:
            for way, found in changes(measured, study).items():
                rows.append({"study": study, "seed": seed, "way": way, **found})
                print(f"seed {seed}  {study:48} {way:15} {found['bits']:6.2f} bits  {found['change']:+.5f}", flush=True)
        print(f"seed {seed}: scores took {cost:.1f} steps' time", flush=True)
    facts = {**machine(options.threads), "workload": options.workload, "layers": options.layers, "steps": options.steps}
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(json.dumps({"settings": facts, "rows": rows}, indent=1) + "\n")
    print(f"wrote {options.out}")
    _tell(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Held-out loss of plans beside other choices at equal average bits.")
    parser.add_argument("--workload", choices=("gpt", "resnet"), default="gpt")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", default="runs/benchmarks/plan_quality.json")
    parser.add_argument("--chart", default="", help="write a figure of --out there, and measure nothing")
    return parser.parse_args()


def _tell(rows: list[dict[str, object]]) -> None:
    """The plan's change over each peer's, and the paired difference."""
    for study in STUDIES:
        by_way = _by_way(rows, study)
        plan = by_way["plan"]
        for way, other in by_way.items():
            if way == "plan":
                continue
            gap = Gap(per_seed={seed: plan[seed] - other[seed] for seed in plan})
            low, high = gap.interval or (gap.mean, gap.mean)
            ratio = sum(plan.values()) / sum(other.values())
            print(f"{study:48} plan / {way:15} {ratio:6.2f}   paired {gap.mean:+.5f} [{low:+.5f}, {high:+.5f}]")


def _by_way(rows: list[dict[str, object]], study: str) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["study"] == study:
            found.setdefault(str(row["way"]), {})[int(str(row["seed"]))] = float(str(row["change"]))
    return found


def _chart(rows: list[dict[str, object]]) -> str:
    panels: dict[str, list[Bar]] = {}
    for study in STUDIES:
        for way, values in _by_way(rows, study).items():
            gap = Gap(per_seed=values)
            low, high = gap.interval or (gap.mean or 0.0, gap.mean or 0.0)
            panels.setdefault(study, []).append(Bar(way, gap.mean or 0.0, low, high, tuple(values.values())))
    return interval_chart(panels, "change of the held-out loss [nats per character]")


if __name__ == "__main__":
    main()
