"""Statistics of a tensor and of casts of it, on its device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mixprec.specs import Cast

from . import _checks as checks
from ._parameters import CastParameters
from ._registry import statistics_backend
from ._statistics_contract import Probe, RawStatistics


def statistics(
    x: Tensor,
    casts: Sequence[Cast | str] = (),
    *,
    axis: int = 1,
    random: Tensor | None = None,
    stream: int = 0,
    sign_stream: int = 0,
    amax: Tensor | None = None,
) -> RawStatistics:
    """Counts and sums of a tensor, and of what each of several casts does to it.

    Args:
        x: fp32, bf16 or fp16, any strides; a matrix ``[R, C]`` where a cast has rows, blocks or a transform, otherwise
            of any shape. Its gradient is not asked for.
        casts: any casts, also none; as each would round x alone.
        axis: of a matrix, that the reduction runs along.
        random: int64 ``[seed, offset]`` on the CPU, for casts that draw random bits.
        stream: added to the offset of the elements' random bits, the same for all casts.
        sign_stream: added to the offset of fresh sign vectors.
        amax: fp32, 0-d: what delayed scales are made for; None or 0 for x's own.

    Returns:
        Counts and sums on x's device: nothing waits for an accelerator. `mixprec.tensors.read_statistics` reads them.

    Raises:
        TypeError: x is not fp32, bf16 or fp16.
        ValueError: a cast that cannot be read, that needs a matrix and got none, or is random without ``random``; an
            ``amax`` that is not one fp32 number.
        RuntimeError: called under ``torch.compile``.

    Example:
        >>> import torch
        >>> raw = statistics(torch.tensor([[5.0, 0.1, 3.0, 0.0]]), ["mxfp4"])
        >>> raw.counts[:4].tolist(), raw.counts[-6:].tolist()
        ([4, 1, 0, 0], [4, 3, 1, 0, 0, 0])
    """
    if torch.compiler.is_compiling():
        raise RuntimeError(
            "mixprec.kernels.statistics is not part of compiled code: call it outside of torch.compile, or take the "
            "statistics of a step that runs uncompiled"
        )
    checks.check_dtype(x)
    checks.check_axis(axis)
    names = tuple(cast if isinstance(cast, str) else str(cast) for cast in casts)
    probes: list[Probe] = []
    for name in names:
        parameters = checks.parameters_of(name)
        _check_shape(x, name, parameters)
        draw = checks.draw_of(parameters, random, stream, sign_stream)
        probes.append(Probe(parameters, draw, _amax_for(parameters, amax, x)))
    x = x.detach()
    counts, numbers = statistics_backend(x.device.type).statistics(x, probes, axis)
    return RawStatistics(names, x.dtype, counts, numbers)


def _check_shape(x: Tensor, name: str, parameters: CastParameters) -> None:
    if x.ndim != 2 and (parameters.scaling in ("row", "block") or parameters.transform):
        raise ValueError(
            f"the cast {name!r} takes a matrix, got shape {tuple(x.shape)}; flatten the leading dimensions"
        )


def _amax_for(parameters: CastParameters, amax: Tensor | None, x: Tensor) -> Tensor | None:
    if amax is None or not parameters.delayed:
        return None
    checks.check_amax(amax, x)
    checks.check_magnitude(amax)
    return amax
