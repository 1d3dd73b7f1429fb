"""Which parts of an FP4 recipe does the model need? Variants of NVFP4 beside bf16, in pairs, with intervals.

    python examples/fp4_recipe_study.py --steps 200 --seeds 3 --out runs/fp4

Of the published recipe one option is swept: how gradients are rounded for the weights' gradient. Another option or
recipe is another `--path`, `--values` and `--recipe`. Every variant trains the same GPT on the same batches for each
seed; the table gives the gap to bf16 with its 95 % interval, `report.html` in `--out` all the rest. More than one seed
is what makes a gap believable: with few, "not resolved" is the honest answer.
"""

import argparse
from pathlib import Path

from mixprec.compare import Comparison, compare, load_workload
from mixprec.records import Record, RunEndRecord, read_records, result_table, summarize, table_markdown
from mixprec.report import write_report
from mixprec.specs import recipe, sweep_recipe


def main() -> None:
    options = _options()
    variants = sweep_recipe(recipe(options.recipe), {options.path: options.values.split(",")})
    comparison = Comparison(
        source=load_workload("gpt", steps=options.steps, data=options.data),
        recipes=(recipe("bf16"), *variants),
        seeds=tuple(range(options.seeds)),
    )
    folder = compare(comparison, options.out, on_record=tell)
    summary = summarize(read_records(folder / "records.jsonl"))
    print(table_markdown(result_table(summary)))
    print(f"report: {write_report(folder)}")


def tell(record: Record) -> None:
    """A line for each run that ended."""
    if isinstance(record, RunEndRecord):
        print(f"{record.recipe}, seed {record.seed}: {record.status}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Variants of an FP4 recipe beside bf16, in pairs.")
    parser.add_argument("--recipe", default="nvfp4", help="where the variants start from")
    parser.add_argument("--path", default="wgrad.grad_output.rounding", help="what to vary")
    parser.add_argument("--values", default="nearest,stochastic", help="with commas between")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", help="a UTF-8 text file; Python's own documentation by default")
    parser.add_argument("--out", type=Path, default=Path("runs/fp4-study"), help="the run folder, new")
    return parser.parse_args()


if __name__ == "__main__":
    main()
