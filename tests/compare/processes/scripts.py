"""A script that trains nothing: it writes a log as its recipe says."""

from __future__ import annotations

import sys
from pathlib import Path

from mixprec.compare import BlackBox

SCRIPT = """
import json, os, random, sys, time
recipe, seed, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
draw = random.Random(seed)
print("hello", recipe)
with open(out + "/log.jsonl", "a") as log:
    if recipe == "missing":
        sys.exit()
    for step in range(1, 11):
        loss = 3 / step + 0.01 * draw.random() + 0.001 * len(recipe)
        if recipe == "nan" and step == 6:
            loss = float("nan")
        log.write(json.dumps({"step": step, "val": loss, "acc": 1 - loss / 10, "dt": 0.5}) + "\\n")
        log.flush()
        if recipe == "slow":
            open(out + "/started", "w").close()
            time.sleep(60)
    if recipe == "garbled":
        log.write("epoch done\\n")
if recipe == "crash":
    raise RuntimeError("<b>boom</b> größer")
if recipe == "killed":
    os.kill(os.getpid(), 9)
"""


def script_box(folder: Path, *names: str, seeds: tuple[int, ...] = (0,), extra: tuple[str, ...] = ()) -> BlackBox:
    script = folder / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    return BlackBox(
        command=f"{sys.executable} '{script}' {{recipe}} {{seed}} {{run}}",
        metrics=("{run}/log.jsonl:val", "{run}/log.jsonl:acc=accuracy", *extra),
        names=names,
        seeds=seeds,
    )
