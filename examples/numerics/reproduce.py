"""Run the miniatures that are comparisons, and print what is expected beside what was measured.

    python examples/numerics/reproduce.py                 all of them, 3 seeds each
    python examples/numerics/reproduce.py --only 5
    python examples/numerics/reproduce.py --quick         one seed where the effects are so large that it shows them

Runs lie in runs/numerics; one that ended is kept, so that a second call goes on. Exit status 0 where every statement
comes out as expected.toml documents it (to agree, unless it says something else), 1 where one does not.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from mixprec.records import Gap, Summary, judge, read_records, summarize

HERE = Path(__file__).parent
HEADER = ("miniature", "recipe", "expected", "measured", "agrees", "its target")
SEEDS = 3
#: Least confidence of the interval of a median.
CONFIDENCE = 0.95
Row = tuple[str, str, str, str, str, str]
Fields = dict[str, Any]


def main(words: list[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=int, metavar="N", help="the comparison that has the miniature of this number")
    parser.add_argument("--quick", action="store_true", help="one seed where the effects are large")
    parser.add_argument("--out", type=Path, default=Path("runs", "numerics"), help="folder of the runs")
    asked = parser.parse_args(words)
    expected = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
    chosen = [each for each in expected["comparisons"] if asked.only in (None, *numbers(each))]
    tests = [(n, path) for n, path in expected["tests"].items() if asked.only in (None, int(n))]
    if not chosen and not tests:
        known = sorted({n for each in expected["comparisons"] for n in numbers(each)} | {*map(int, expected["tests"])})
        parser.error(f"--only {asked.only}: expected one of {', '.join(map(str, known))}")
    rows: list[Row] = []
    is_as_documented = True
    for each in chosen:
        summary = run(each, asked.out, quick=asked.quick)
        rows += compared(each, summary)
        is_as_documented &= all(outcome(one, summary) == documented(one) for one in each["expect"])
    print_rows([*rows, *((n, "", "run by its test", path, "", "") for n, path in tests)])
    return 0 if is_as_documented else 1


def numbers(comparison: Fields) -> set[int]:
    """Of the miniatures that a comparison has."""
    return {each["number"] for each in comparison["expect"]}


def run(comparison: Fields, out: Path, *, quick: bool) -> Summary:
    """Run ``mixprec compare``, or go on where it was, and read what it recorded."""
    name, workload = title(comparison), comparison["workload"]
    seeds = 1 if quick and comparison.get("quick") else comparison.get("seeds", SEEDS)
    files = {each: HERE / "recipes" / f"{each}.toml" for each in comparison["recipes"]}
    recipes = ",".join(str(file) if file.exists() else each for each, file in files.items())
    folder = out.absolute() / f"{name}-{seeds}"
    there = (folder / "records.jsonl").exists()
    words = [sys.executable, "-m", "mixprec", "compare", str(HERE / f"{workload}.py"), "--recipes", recipes]
    words += ["--seeds", str(seeds), "--targets", str(HERE / f"{name}.toml"), "--threads", "1"]
    status = subprocess.run([*words, "--resume" if there else "--out", str(folder)], check=False).returncode
    if status not in (0, 1, 3) or not (folder / "records.jsonl").exists():
        raise SystemExit(f"{name}: mixprec compare ended with status {status}, expected 0, 1 or 3; its words are above")
    return summarize(read_records(folder / "records.jsonl"))


def title(comparison: Fields) -> str:
    """Of its folder, its targets and its rows."""
    return comparison.get("name", comparison["workload"])


def compared(comparison: Fields, summary: Summary) -> list[Row]:
    """A row for each statement: whether it agrees, and what the comparison itself says of the recipe's target."""
    rows: list[Row] = []
    for each in comparison["expect"]:
        found = outcome(each, summary)
        if documented(each) != "yes":
            found += ", as documented" if found == documented(each) else f", documented: {documented(each)}"
        name, measured = f"{each['number']} {title(comparison)}", told(each, measure(each, summary))
        rows.append((name, each["recipe"], statement(each), measured, found, verdict(each, summary)))
    return rows


def documented(each: Fields) -> str:
    """What is to come out of a statement."""
    return each.get("outcome", "yes")


def verdict(each: Fields, summary: Summary) -> str:
    """What the comparison says of the target of a statement's metric: by the whole interval, not by the mean."""
    target = f"quality.{each.get('metric', 'loss')}"
    found = [one.outcome for one in judge(summary) if (one.recipe, one.target) == (each["recipe"], target)]
    return found[0] if found else "none"


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
    return Gap(per_seed={seed: gap for seed, gap in gaps.items() if seed >= each.get("from_seed", 0)})


def outcome(each: Fields, summary: Summary) -> str:
    """Whether a statement agrees: yes or no; of a median also: not resolved."""
    gap = measure(each, summary)
    if each.get("statistic") != "median" or gap.mean is None:
        return "yes" if keeps(each, gap, summary) else "no"
    low, high = bounds(each)
    interval = median_interval(list(gap.per_seed.values()))
    if interval is None:
        return "not resolved"
    if low <= interval[0] and interval[1] <= high:
        return "yes"
    return "no" if interval[1] < low or interval[0] > high else "not resolved"


def bounds(each: Fields) -> tuple[float, float]:
    """What a statement's statistic must lie between."""
    return each.get("at_least", -math.inf), 0.0 if "of" in each else each.get("at_most", math.inf)


def median_interval(values: list[float]) -> tuple[float, float] | None:
    """The innermost two order statistics that have the median between them in 95 % at least; ``None`` below six values.

    That holds whatever the law: a value lies below the median as often as above it.
    """
    ordered, n, beyond, found = sorted(values), len(values), 0.0, None
    for i in range(n // 2):
        beyond += math.comb(n, i) / 2**n
        if 1 - 2 * beyond >= CONFIDENCE:
            found = ordered[i], ordered[n - 1 - i]
    return found


def keeps(each: Fields, gap: Gap, summary: Summary) -> bool:
    """Whether a statement holds; one of figures that are missing does not."""
    mean = gap.mean
    if mean is None:
        return False
    if each.get("resolved") is False:
        return gap.interval is not None and not gap.resolved and verdict(each, summary) == "not resolved"
    if "each_above" in each:
        return all(value > each["each_above"] for value in gap.per_seed.values())
    low, high = bounds(each)
    return low <= mean <= high


def statement(each: Fields) -> str:
    """A statement in words."""
    if each.get("resolved") is False:
        return "not resolved"
    name = each.get("metric", "loss")
    if "of" in each:
        which = "median of the " if each.get("statistic") == "median" else ""
        return f"{which}gap in {name} less {each['share']:g} of that of {each['of']} <= 0"
    what = name if each.get("value") else f"gap in {name}" + (f" over {each['over']}" if "over" in each else "")
    what += " / baseline" if each.get("relative") else ""
    if "each_above" in each:
        return f"{what} > {each['each_above']:g}, each pair"
    return f"{what} " + (f"<= {each['at_most']:g}" if "at_most" in each else f">= {each['at_least']:g}")


def told(each: Fields, gap: Gap) -> str:
    """The mean or the median, its interval, and of how many pairs."""
    if gap.mean is None:
        return "not measured: a run did not end well"
    value, interval = gap.mean, gap.interval
    if each.get("statistic") == "median":
        values = list(gap.per_seed.values())
        value, interval = median(values), median_interval(values)
    words = "" if interval is None else f" ({interval[0]:+.4f} to {interval[1]:+.4f})"
    return f"{value:+.4f}{words}, {gap.seeds} pair{'' if gap.seeds == 1 else 's'}"


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
