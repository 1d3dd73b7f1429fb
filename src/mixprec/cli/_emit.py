"""``mixprec emit``: a plan or a recipe as Python for torchao or Transformer Engine."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ._output_file import STDOUT, OutputFile

if TYPE_CHECKING:
    from mixprec.planner.plan import Plan
    from mixprec.specs import Recipe


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec emit` can be told."""

    to: Literal["torchao", "transformer-engine"]
    """The engine."""
    out: Path = Path("-")
    """The file to write. Default: standard output."""
    keep: str | None = None
    """Globs of sites that stay in the compute dtype whatever the recipe says, comma-separated."""
    emulate: Annotated[bool, Parameter(negative=())] = False
    """torchao alone: multiply in a wider dtype, for machines without the formats. Slow."""
    seed: int = 0
    """Of the workload's weights and data; the file does not depend on them."""
    data: str | None = None
    """Another text for the built-in workload gpt."""


def command(recipe: str, workload: str, /, *, options: Annotated[Options, Parameter(name="*")]) -> int:
    """Write a plan, or any recipe, as a Python file for an engine that people already run.

    The file needs the engine and no mixprec: `apply(model)` converts the layers, with each plan's reasons as comments.
    What the engine cannot run as asked is refused, with every site and why, and nothing is written.

    For example: `mixprec emit plan.toml my.py --to torchao --out precision.py`, or
    `mixprec emit nvfp4 my.py --to transformer-engine --keep "blocks.0.*"`

    Args:
        recipe: the file that `mixprec plan` wrote, another recipe's file, or a recipe's name.
        workload: a Python file with `workload(seed, device)`, or a built-in one: gpt, resnet.
        options: what else can be told.
    """
    if options.emulate and options.to != "torchao":
        raise ValueError("--emulate is for torchao: Transformer Engine multiplies on GPUs alone")
    given = _given(recipe)
    with OutputFile(options.out) as output:
        output.write(_text(given, workload, options))
    if options.out != STDOUT:
        print(f"wrote {options.out}")
    return 0


def _given(name: str) -> Recipe | Plan:
    """A plan where the file holds one, for its reasons; else the recipe."""
    from mixprec.planner.plan import Plan
    from mixprec.specs import load_recipe, recipe_names

    found = load_recipe(name)
    if name in recipe_names():
        return found
    table = tomllib.loads(Path(name).read_text(encoding="utf-8-sig"))
    return Plan.load(name) if "plan" in table else found


def _text(given: Recipe | Plan, workload: str, options: Options) -> str:
    from mixprec.compare import load_workload, trace_workload
    from mixprec.integrations import emit_torchao, emit_transformer_engine

    keep = () if options.keep is None else tuple(glob.strip() for glob in options.keep.split(","))
    model, inventory = trace_workload(load_workload(workload, data=options.data), seed=options.seed)
    if options.to == "torchao":
        return emit_torchao(model, given, inventory, keep=keep, emulate=options.emulate).to_source()
    return emit_transformer_engine(model, given, inventory, keep=keep).to_source()
