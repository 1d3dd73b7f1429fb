"""``mixprec watch``: a run in the terminal, while another process runs it."""

from __future__ import annotations

from pathlib import Path


def command(
    run: Path,
    /,
    *,
    once: bool = False,
    wait: bool = False,
    recipe: str | None = None,
    seed: int | None = None,
    every: float = 1.0,
) -> int:
    """Show a run folder live: loss, gradient norm, loss scale, skipped steps, the worst tensors, findings, incidents.

    Reads the folder only; the run does not notice. Ctrl-C ends the watching, not the run. Into a pipe or a file, one
    picture is printed.

    For example: `mixprec watch runs/a`

    Args:
        run: the run folder, with its `records.jsonl`.
        once: print one picture and end.
        wait: wait for a run that has not begun.
        recipe: of a comparison's runs, show this recipe's in full.
        seed: of a comparison's runs, show this seed's in full.
        every: seconds between two looks.
    """
    from mixprec.report.live import watch

    try:
        watch(run, once=once, wait=wait, recipe=recipe, seed=seed, every=every)
    except KeyboardInterrupt:
        # How one leaves a live view is no failure.
        print()
    return 0
