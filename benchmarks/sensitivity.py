"""Whether scores rank a model's layers as quantizing them one at a time does, and what they predict of all together.

    python -m benchmarks.sensitivity [--workload gpt|resnet] [--layers N] [--steps N] [--at N ...] [--seeds N]

Each ``--at`` is a step of the training of so many ``--steps`` after which the same weights are scored, and then
quantized layer by layer. Rows are added to the JSON file as they come; what it has already is not measured again.
``--tell`` prints its table, ``--chart`` makes a figure of it.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ._interval_chart import Bar, interval_chart
from ._machine import machine
from ._validity_study import CASTS, TRUTHS, Subject, rank_correlation, repeatability, study

_NAMES = {"mxfp4": "MXFP4", "e2m1": "E2M1 per tensor"}


def main() -> None:
    options = _options()
    out = Path(options.out)
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"] if out.exists() else []
    if options.chart:
        Path(options.chart).write_text(_chart(rows))
        print(f"wrote {options.chart}")
    if options.tell:
        _tell(rows)
    if options.chart or options.tell:
        return
    torch.set_num_threads(options.threads)
    out.parent.mkdir(parents=True, exist_ok=True)
    known = [row["subject"] for row in rows]
    for subject in _subjects(options):
        if dataclasses.asdict(subject) in known:
            continue
        rows.append({"subject": dataclasses.asdict(subject), **study(subject)})
        out.write_text(json.dumps({"settings": machine(options.threads), "rows": rows}, indent=1) + "\n")
        _tell(rows[-1:])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Rank correlation of scores with true one-at-a-time loss changes.")
    parser.add_argument("--workload", choices=("gpt", "resnet"), default="gpt")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--at", type=int, nargs="+", help="steps after which to measure; without it after the last")
    parser.add_argument("--batches", type=int, default=2, help="that are scored")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--out", default="runs/benchmarks/sensitivity.json")
    parser.add_argument("--chart", default="", help="write a figure of --out there, and measure nothing")
    parser.add_argument("--tell", action="store_true", help="print what is in --out, and measure nothing")
    return parser.parse_args()


def _subjects(options: argparse.Namespace) -> list[Subject]:
    layers = 0 if options.workload == "resnet" else options.layers
    return [
        Subject(
            workload=options.workload,
            layers=layers,
            steps=options.steps,
            at=at,
            seed=seed,
            batches=options.batches,
        )
        for seed in range(options.seeds)
        for at in options.at or [options.steps]
    ]


def _model(subject: dict[str, Any]) -> str:
    return "ResNet" if subject["workload"] == "resnet" else f"GPT, {subject['layers']} layers"


def _title(subject: dict[str, Any]) -> str:
    return f"{_model(subject)}, {subject['at']} of {subject['steps']} steps"


def _tell(rows: Sequence[dict[str, Any]]) -> None:
    """Rank correlations and ratios of each subject and cast."""
    for row in rows:
        for cast in CASTS:
            print(
                f"{_title(row['subject'])}, seed {row['subject']['seed']}, {_NAMES[cast]:16} {_line(row[cast])}",
                flush=True,
            )


def _line(found: dict[str, Any]) -> str:
    layers, every, total = found["layers"], found["all layers"], found["all products"]
    parts = [
        f"{of} " + " ".join(f"{rank_correlation(layers, of, truth):+.2f}" for truth in TRUTHS)
        for of in ("score", "curvature", "output_error")
    ]
    parts.append("repeats " + " ".join(f"{repeatability(layers, truth):+.2f}" for truth in TRUTHS[1:]))
    for name, predicted, measured in (
        ("layers", sum(layer["score"] for layer in layers), every),
        ("products", total["score"], total),
    ):
        parts.append(f"{name} {predicted:.4f} of " + " ".join(f"{measured[truth]:.4f}" for truth in TRUTHS))
    return "  ".join(parts)


def _chart(rows: Sequence[dict[str, Any]]) -> str:
    """A panel for each model and cast; a row for each stage, the circles being trainings."""
    panels: dict[str, list[Bar]] = {}
    for cast, said in _NAMES.items():
        for model in dict.fromkeys(_model(row["subject"]) for row in rows):
            mine = [row for row in rows if _model(row["subject"]) == model]
            stages = sorted({(row["subject"]["at"], row["subject"]["steps"]) for row in mine})
            panels[f"{model}, {said}"] = [
                _bar(f"{name} at {at}", [row[cast]["layers"] for row in mine if _stage(row) == (at, steps)], of)
                for of, name in (("score", "score"), ("output_error", "output error"))
                for at, steps in stages
            ]
    return interval_chart(panels, "rank correlation with the true change of the scored batches' loss")


def _stage(row: dict[str, Any]) -> tuple[int, int]:
    return row["subject"]["at"], row["subject"]["steps"]


def _bar(name: str, trainings: Sequence[Sequence[dict[str, Any]]], of: str) -> Bar:
    values = tuple(rank_correlation(layers, of, "scored") for layers in trainings)
    return Bar(name, sum(values) / len(values), min(values), max(values), values)


if __name__ == "__main__":
    main()
