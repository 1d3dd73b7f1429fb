"""``mixprec plan``: the automatic recipe, with reasons and proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from mixprec._quiet import be_quiet

from ._named_hardware import named_hardware
from ._output_file import OutputFile
from ._print import print_table

if TYPE_CHECKING:
    from mixprec.compare.planning import Planned, PlanRequest
    from mixprec.hardware import Hardware
    from mixprec.planner import Choice, Quantity

_QUANTITIES: dict[str, Quantity] = {"time": "seconds", "memory": "bytes", "cost": "cost", "loss": "loss"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `mixprec plan` can be told."""

    hardware: str
    """What to predict times for: a name such as h100, or a TOML file, as `mixprec calibrate` writes one."""
    targets: Path | None = None
    """What to keep to: a TOML file, as `mixprec init --targets FILE` writes one."""
    candidates: str = "mxfp8,nvfp4"
    """What layers may be given: names of recipes or paths of TOML files, comma-separated; "keep" always is."""
    base: str = "auto"
    """The recipe that layers keep which are given nothing. Default: what the hardware multiplies natively."""
    objective: Literal["time", "memory", "cost", "loss"] = "time"
    """What is to be least."""
    loss_budget: float | None = None
    """Largest predicted change of the loss. Default: the target's."""
    keep: str | None = None
    """Globs of layers that stay in the compute dtype, comma-separated."""
    emulated: Annotated[bool, Parameter(negative=())] = False
    """Formats that the hardware does not multiply may be given too: they save memory and no time."""
    steps: int = 100
    """Training steps before measuring: a plan for weights that have learnt nothing says little."""
    checkpoint: Annotated[Path | None, Parameter(name="--from")] = None
    """Measure at the weights of this checkpoint instead."""
    batches: int = 2
    """Batches that are measured, at most."""
    most_steps: float | None = None
    """Measure a further batch only while the scores are expected to end within this many steps' time. Default: all."""
    pareto: Annotated[bool, Parameter(negative=())] = False
    """Show what can be had for every budget of the loss, too."""
    price: float | None = None
    """Price of the hardware per hour and device."""
    checks: int = 3
    """Proof: layers that are quantized alone."""
    pairs: int = 3
    """Proof: paired runs; 0 leaves them out. A plan that keeps every layer has none."""
    proof_steps: int = 50
    """Proof: training steps of each run."""
    out: Path = Path("plan.toml")
    """Where to write the plan."""
    data: str | None = None
    """For `gpt`: a UTF-8 text file to train on, instead of Python's documentation."""
    device: str = "cpu"
    """Where to measure, e.g. `cuda:0`."""
    seed: int = 0
    """Of the weights and the data."""


def command(workload: str, /, *, options: Annotated[Options, Parameter(name="*")]) -> int:
    """Choose a format for every layer by measuring the model, and prove the choice in a short paired run.

    Writes an ordinary recipe with its evidence, for `mixprec compare`, `mixprec explain` and `prepare`. The exit status
    is 1 where a target was missed, 3 where one could not be resolved, else 0.

    For example:

    - `mixprec plan my.py --hardware h100 --candidates fp8 --loss-budget 0.01`
    - `mixprec plan gpt --hardware b200 --targets targets.toml --keep "head,blocks.0.*" --pareto`

    Args:
        workload: `gpt` (a small GPT on text), `resnet` (a small ResNet on digits), or a Python file with
            `def workload(seed, device)`, as `mixprec init FILE` writes one.
        options: the rest.
    """
    be_quiet()
    from mixprec.compare.planning import ProofSettings, exit_status, plan_workload, prove
    from mixprec.planner.plan import explain

    settings = ProofSettings(
        checks=options.checks,
        pairs=options.pairs,
        steps=options.proof_steps,
        seed=options.seed,
        device=options.device,
    )
    request = _request(workload, options)
    with OutputFile(options.out) as output:
        planned = plan_workload(request)
        output.write(planned.plan.to_toml())
    if options.pareto:
        _show_front(planned, request)
    proved = prove(
        planned.plan,
        planned.start,
        request.base,
        request.candidates,
        planned.basis.layers,
        targets=request.targets,
        settings=settings,
    )
    with OutputFile(options.out) as output:
        output.write(proved.to_toml())
    print(explain(proved))
    print(f"\nwrote {options.out}; `mixprec explain {options.out} SITE` tells more of a layer")
    measured = proved.evidence.measured
    return exit_status({} if measured is None else measured.verdicts)


def _request(workload: str, options: Options) -> PlanRequest:
    from mixprec.compare import load_workload
    from mixprec.compare.planning import PlanRequest
    from mixprec.planner import Targets
    from mixprec.planner.options import candidate_of
    from mixprec.specs import auto_recipe, load_recipe

    hardware = _hardware(options)
    is_auto = options.base == "auto"
    base = auto_recipe(hardware.native_formats, hardware.title) if is_auto else load_recipe(options.base)
    return PlanRequest(
        source=load_workload(workload, data=options.data),
        hardware=hardware,
        candidates=tuple(candidate_of(name) for name in _words("candidates", options.candidates)),
        base=base,
        targets=Targets() if options.targets is None else Targets.load(options.targets),
        minimise=_QUANTITIES[options.objective],
        loss_budget=options.loss_budget,
        keep=() if options.keep is None else _words("keep", options.keep),
        emulated=options.emulated,
        steps=options.steps,
        checkpoint=options.checkpoint,
        batches=options.batches,
        most_steps=options.most_steps,
        seed=options.seed,
        device=options.device,
        name=options.out.stem,
    )


def _hardware(options: Options) -> Hardware:
    found = named_hardware(options.hardware)
    return found if options.price is None else replace(found, price_per_hour=options.price)


def _words(option: str, text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise ValueError(f"--{option} '{text}' has an empty name: expected names with a comma between two")
    return words


def _show_front(planned: Planned, request: PlanRequest) -> None:
    from mixprec.compare.planning import front_of

    header = (">predicted loss change", ">products", ">saved bytes", "given")
    rows = [
        (f"{c.loss:.3g}", f"{c.seconds * 1e3:.3g} ms", f"{c.bytes:,}", _tally(c)) for c in front_of(planned, request)
    ]
    print_table(header, rows, title=f"what can be had on {request.hardware.name}")


def _tally(choice: Choice) -> str:
    names: Sequence[str] = sorted(choice.candidates.values())
    return ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
