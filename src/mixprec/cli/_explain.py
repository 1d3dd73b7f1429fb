"""``mixprec explain``: why a plan gives a layer what it gives."""

from __future__ import annotations

from pathlib import Path


def command(plan: Path, site: str | None = None, /) -> int:
    """Tell why a plan is what it is: what was predicted and measured, and of every group why it has what it has.

    For example: `mixprec explain plan.toml`, or `mixprec explain plan.toml blocks.0.attention.qkv` for all that one
    layer could have had, the runner-up and why it was not taken.

    Args:
        plan: the file that `mixprec plan` wrote.
        site: path of a layer.
    """
    from mixprec.planner.plan import Plan, explain

    print(explain(Plan.load(plan), site))
    return 0
