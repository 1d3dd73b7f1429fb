"""What casts do to the tensors of a file."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast as cast_type

import torch
from torch import Tensor

from mixprec import kernels
from mixprec.records import AnalysisRecord, AnalysisRow, AnalysisTotal, SkippedTensor
from mixprec.specs import Cast

from ._error import cast_error, ratio_in_db
from ._files import stored_tensors
from ._matrix import is_convolution, operand_shape, resolve_all
from ._stored import StoredTensor
from ._tally import Tally, tally

# Tensors that a note or an error names; the rows tell the shape and dtype of each.
_NAMED = 5


def analyze_file(
    path: str | Path,
    casts: Cast | str | Iterable[Cast | str],
    *,
    match: str = "*",
    exclude: str = "",
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> AnalysisRecord:
    """What casts do to every floating-point tensor of a file.

    Tensors are read one at a time, mapped where the format allows it, so that the file may be larger than memory. All
    are looked at once, for NaN and infinity, before the first is rounded. fp64 is rounded to fp32 first, with a note.

    Blocks lie along the last axis, the reduction of a forward product with a weight ``[N, K]``. The weight of a
    convolution, told by its shape (4 or 5 dimensions, or 3 with a last one below 32), is taken as ``[O, I * k * ...]``.

    Args:
        path: a safetensors file, one that ``torch.save`` wrote (read with ``weights_only=True``), an index of shards
            such as ``model.safetensors.index.json``, or a folder with one of these.
        casts: casts or their one-line forms; one that comes twice is tried once. Or one alone.
        match: glob that a tensor's name must match, case-sensitive (``*`` crosses dots).
        exclude: glob of names that are left out; empty for none.
        seed: key of the random bits of stochastic casts.
        on_progress: is told how many elements were rounded, of how many, after each tensor and cast.

    Returns:
        A row for each tensor and cast, totals, and the tensors that no cast was tried on, with the reason of each.

    Raises:
        ValueError: a cast is unknown; the file is of another kind, damaged, or needs code to be loaded; no tensor is
            left to try casts on; a tensor holds NaN or infinity.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "model.pt"
        >>> torch.save({"w": torch.linspace(-1, 1, 64).reshape(2, 32), "step": torch.tensor(5)}, file)
        >>> record = analyze_file(file, ["mxfp8", "mxfp4"])
        >>> [(row.tensor, row.cast, row.bits_per_element) for row in record.rows]
        [('w', 'mxfp8', 8.25), ('w', 'mxfp4', 4.25)]
        >>> record.skipped[0].tensor, record.skipped[0].reason
        ('step', 'int64, not floating point')
    """
    resolved = tuple(dict.fromkeys(resolve_all("analyze_file", casts)))
    for name, text in (("path", path), ("match", match), ("exclude", exclude)):
        if not isinstance(cast_type("object", text), str | os.PathLike):
            raise TypeError(f"analyze_file: {name} is {text!r} ({type(text).__name__}), expected a text")
    asked_for = _each_once(_asked_for(path, stored_tensors(Path(path)), match, exclude))
    fit = [tensor for tensor in asked_for if not tensor.unfit]
    skipped = [tensor for tensor in asked_for if tensor.unfit]
    if not fit:
        raise ValueError(f"{path} has no tensor to try casts on: {_why_none(skipped)}")
    for tensor in fit:
        _check_finite(path, tensor)
    tallies = _tallies(fit, resolved, seed, on_progress)
    rows = [_row(fit[i], cast, parts[i]) for i in range(len(fit)) for cast, parts in tallies.items()]
    return AnalysisRecord(
        source=str(path),
        casts=tuple(map(str, resolved)),
        rows=tuple(rows),
        totals=tuple(_total(cast, fit, parts) for cast, parts in tallies.items()),
        skipped=tuple(SkippedTensor(tensor=t.name, dtype=t.dtype, shape=t.shape, reason=t.unfit) for t in skipped),
        notes=_notes(fit),
    )


def _asked_for(path: str | Path, found: Sequence[StoredTensor], match: str, exclude: str) -> list[StoredTensor]:
    """The tensors that the globs leave."""
    if not found:
        raise ValueError(f"{path} holds no tensors")
    names = [tensor.name for tensor in found]
    matching = [tensor for tensor in found if fnmatchcase(tensor.name, match)]
    if not matching:
        near = difflib.get_close_matches(match, names, n=1)
        offer = f"did you mean {near[0]}?" if near else f"the first of {len(names)} is {names[0]}"
        raise ValueError(f"no tensor of {path} has a name that matches '{match}': {offer}")
    left = [tensor for tensor in matching if not (exclude and fnmatchcase(tensor.name, exclude))]
    if not left:
        raise ValueError(f"'{exclude}' leaves out every tensor of {path} that matches '{match}'")
    return left


def _each_once(tensors: Iterable[StoredTensor]) -> list[StoredTensor]:
    """Tied weights are tried under their first name."""
    first: dict[Hashable, str] = {}
    found: list[StoredTensor] = []
    for tensor in tensors:
        if tensor.memory is not None and not tensor.unfit:
            name = first.setdefault(tensor.memory, tensor.name)
            tensor = tensor if name == tensor.name else replace(tensor, unfit=f"the same tensor as {name}")
        found.append(tensor)
    return found


def _why_none(skipped: Sequence[StoredTensor]) -> str:
    shown = "; ".join(f"{tensor.name}: {tensor.unfit}" for tensor in skipped[:_NAMED])
    return shown + (f"; and {len(skipped) - _NAMED} more" if len(skipped) > _NAMED else "")


def _read(tensor: StoredTensor) -> Tensor:
    """The operand whose last axis is the reduction, in fp32, bf16 or fp16."""
    x = tensor.read()
    return (x.float() if x.dtype == torch.float64 else x).reshape(operand_shape(x.shape))


def _check_finite(path: str | Path, tensor: StoredTensor) -> None:
    x = _read(tensor)
    if math.isfinite(kernels.amax(x).item()):
        return
    nan, infinite = int(x.isnan().sum()), int(x.isinf().sum())
    after = " after its rounding to fp32" if tensor.dtype == "fp64" else ""
    raise ValueError(
        f"tensor {tensor.name} of {path} has {nan} NaN and {infinite} infinite elements of {x.numel()}{after}: no "
        f"error can be told; mend it, or leave it out with --exclude '{tensor.name}'"
    )


def _tallies(
    tensors: Sequence[StoredTensor],
    casts: Sequence[Cast],
    seed: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[Cast, list[Tally]]:
    """For each cast the counts of each tensor; every tensor is read once."""
    done, elements = 0, len(casts) * sum(math.prod(tensor.shape) for tensor in tensors)
    tallies: dict[Cast, list[Tally]] = {cast: [] for cast in casts}
    for tensor in tensors:
        x = _read(tensor)
        for cast, parts in tallies.items():
            parts.append(tally(x, cast, seed=seed))
            done += x.numel()
            if on_progress is not None:
                on_progress(done, elements)
    return tallies


def _row(tensor: StoredTensor, cast: Cast, counted: Tally) -> AnalysisRow:
    return AnalysisRow(
        tensor=tensor.name,
        dtype=tensor.dtype,
        shape=tensor.shape,
        reduction=operand_shape(tensor.shape)[1],
        **asdict(cast_error(cast, counted)),
    )


def _total(cast: Cast, tensors: Sequence[StoredTensor], parts: Sequence[Tally]) -> AnalysisTotal:
    together = sum(parts[1:], parts[0])
    # The mean over the elements of each tensor's noise, its own mean square taken as one.
    noise = math.fsum(part.elements * part.noise / part.signal for part in parts if part.signal) / together.elements
    ratios = [cast_error(cast, part).snr_db for part in parts]
    lowest = min(range(len(ratios)), key=lambda i: ratios[i])
    figures = replace(cast_error(cast, together), snr_db=ratio_in_db(1.0, noise))
    return AnalysisTotal(
        tensors=len(parts),
        elements=together.elements,
        lowest_snr_db=ratios[lowest],
        lowest_snr_tensor=tensors[lowest].name,
        **asdict(figures),
    )


def _notes(tensors: Sequence[StoredTensor]) -> tuple[str, ...]:
    """What must be read with the figures."""
    notes = ["blocks and rows lie along the last axis, the reduction of a forward product with a weight [N, K]"]
    convolutions = [tensor.name for tensor in tensors if is_convolution(tensor.shape)]
    double = [tensor.name for tensor in tensors if tensor.dtype == "fp64"]
    for what, names in (
        ("taken as weights of convolutions, [O, I * k * ...]", convolutions),
        ("fp64, rounded to fp32 first", double),
    ):
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            notes.append(f"{what}: {', '.join(names[:_NAMED])}{more}")
    return tuple(notes)
