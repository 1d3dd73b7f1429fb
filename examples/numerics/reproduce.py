"""Run the miniatures that are comparisons, and print what is expected beside what was measured.

    python examples/numerics/reproduce.py                 all of them, 3 seeds each
    python examples/numerics/reproduce.py --only 5
    python examples/numerics/reproduce.py --quick         one seed, but for what must come out as not resolved

Runs lie in runs/numerics; one that ended is kept, so that a second call goes on. Exit status 1 where one disagrees.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mixprec.records import Gap, Summary, judge, read_records, summarize

HERE = Path(__file__).parent
HEADER = ("miniature", "recipe", "expected", "measured", "agrees")
SEEDS = 3
Row = tuple[str, str, str, str, str]
Fields = dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, metavar="N", help="the comparison that has the miniature of this number")
    parser.add_argument("--quick", action="store_true", help="one seed, but for what must come out as not resolved")
    parser.add_argument("--out", type=Path, default=Path("runs", "numerics"), help="folder of the runs")
    asked = parser.parse_args(words)
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    chosen = [each for each in expected["comparisons"] if asked.only in (None, *numbers(each))]
    tests = [(n, path) for n, path in expected["tests"].items() if asked.only in (None, int(n))]
    if not chosen and not tests:
        known = sorted({n for each in expected["comparisons"] for n in numbers(each)} | {*map(int, expected["tests"])})
        parser.error(f"--only {asked.only}: expected one of {', '.join(map(str, known))}")
    rows: list[Row] = []
    for each in chosen:
        rows += compared(each, run(each, asked.out, quick=asked.quick))
    print_rows([*rows, *((n, "", "run by its test", path, "") for n, path in tests)])
    return int(any(row[-1] == "no" for row in rows))


def numbers(comparison: Fields) -> set[int]:
    """Of the miniatures that a comparison has."""
    return {each["number"] for each in comparison["expect"]}


def run(comparison: Fields, out: Path, *, quick: bool) -> Summary:
    """Run ``mixprec compare``, or go on where it was, and read what it recorded."""
    name = comparison["workload"]
    pairs = any(each.get("resolved") is False for each in comparison["expect"])
    seeds = SEEDS if pairs or not quick else 1
    files = {each: HERE / "recipes" / f"{each}.toml" for each in comparison["recipes"]}
    recipes = ",".join(str(file) if file.exists() else each for each, file in files.items())
    folder = out.absolute() / f"{name}-{seeds}"
    there = (folder / "records.jsonl").exists()
    words = [sys.executable, "-m", "mixprec", "compare", str(HERE / f"{name}.py"), "--recipes", recipes]
    words += ["--seeds", str(seeds), "--targets", str(HERE / f"{name}.toml"), "--threads", "1"]
    status = subprocess.run([*words, "--resume" if there else "--out", str(folder)], check=False).returncode
    if status not in (0, 1, 3) or not (folder / "records.jsonl").exists():
        raise SystemExit(f"{name}: mixprec compare ended with status {status}, expected 0, 1 or 3; its words are above")
    return summarize(read_records(folder / "records.jsonl"))


def compared(comparison: Fields, summary: Summary) -> list[Row]:
    """A row for each statement."""
    rows: list[Row] = []
    for each in comparison["expect"]:
        gap = measure(each, summary)
        name, agrees = f"{each['number']} {comparison['workload']}", "yes" if keeps(each, gap, summary) else "no"
        rows.append((name, each["recipe"], statement(each), told(gap), agrees))
    return rows


def measure(each: Fields, summary: Summary) -> Gap:
    """What a statement is about, by seed; of nothing where a run did not end well."""
    found, base = (summary.row(name) for name in (each["recipe"], each.get("over", each.get("of", summary.baseline))))
    name = each.get("metric", "loss")
    if found is None or base is None or {found.status, base.status} != {"done"}:
        return Gap()
    own, other = found.quality[name], base.quality[name]
    gaps = own.gap.per_seed
    if each.get("value"):
        gaps = own.per_seed
    elif each.get("relative"):
        gaps = {seed: gap / other.per_seed[seed] for seed, gap in gaps.items()}
    elif "over" in each:
        gaps = {seed: gap - other.gap.per_seed[seed] for seed, gap in gaps.items()}
    elif "of" in each:
        gaps = {seed: gap - each["share"] * other.gap.per_seed[seed] for seed, gap in gaps.items()}
    return Gap(per_seed=gaps)


def keeps(each: Fields, gap: Gap, summary: Summary) -> bool:
    """Whether a statement holds; one of figures that are missing does not."""
    mean = gap.mean
    if mean is None:
        return False
    if each.get("resolved") is False:
        outcomes = {v.outcome for v in judge(summary) if (v.recipe, v.target) == (each["recipe"], "quality.loss")}
        return gap.interval is not None and not gap.resolved and outcomes == {"not resolved"}
    if "each_above" in each:
        return all(value > each["each_above"] for value in gap.per_seed.values())
    low, high = each.get("at_least", float("-inf")), 0.0 if "of" in each else each.get("at_most", float("inf"))
    return low <= mean <= high


def statement(each: Fields) -> str:
    """A statement in words."""
    if each.get("resolved") is False:
        return "not resolved"
    name = each.get("metric", "loss")
    if "of" in each:
        return f"gap in {name} less {each['share']:g} of that of {each['of']} <= 0"
    what = name if each.get("value") else f"gap in {name}" + (f" over {each['over']}" if "over" in each else "")
    what += " / baseline" if each.get("relative") else ""
    if "each_above" in each:
        return f"{what} > {each['each_above']:g}, each pair"
    return f"{what} " + (f"<= {each['at_most']:g}" if "at_most" in each else f">= {each['at_least']:g}")


def told(gap: Gap) -> str:
    """The mean, its interval, and of how many pairs."""
    if gap.mean is None:
        return "not measured: a run did not end well"
    words = "" if gap.interval is None else f" ({gap.interval[0]:+.4f} to {gap.interval[1]:+.4f})"
    return f"{gap.mean:+.4f}{words}, {gap.seeds} pair{'' if gap.seeds == 1 else 's'}"


def print_rows(rows: list[Row]) -> None:
    """The table."""
    table = Table(*HEADER)
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console.width = 200
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
