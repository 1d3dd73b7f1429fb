"""The script that the pages call train.py: it takes a seed and a name, and writes a log."""

import argparse
import json
import random
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--recipe")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    noise = random.Random(asked.seed)
    with (asked.out / "log.jsonl").open("w", encoding="utf-8") as log:
        for step in range(1, 6):
            loss = 2 / step + 0.01 * noise.random() + 0.001 * (asked.recipe == "mine")
            log.write(json.dumps({"step": step, "val_loss": loss, "acc": 1 - loss / 4}) + "\n")


if __name__ == "__main__":
    main()
