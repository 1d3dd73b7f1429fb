"""How the weights of an optimizer are kept: one call for every optimizer and every way."""

from __future__ import annotations

from torch.optim import Optimizer

from ..specs import Moments, Weights
from ._any_optimizer import SubstitutedWeights
from ._eps import lost_eps
from ._kept_weights import KeptWeights
from ._kernel_optimizer import KernelOptimizer
from ._own_weights import OwnWeights

_FP32_MOMENTS = Moments()


def keep_weights(
    optimizer: Optimizer, kind: Weights, *, moments: Moments = _FP32_MOMENTS, seed: int = 0
) -> KeptWeights:
    """Decide how the weights of an optimizer are kept.

    Parameters of 16 bits are kept as ``kind`` says; others are their own full value. An optimizer of any class but this
    package's works on fp32 masters, which replace the parameters in its groups, in place and in order; its state moves
    along, cast to fp32, and stays fp32.

    - ``"master"``: the masters stay; a parameter is its master rounded to nearest.
    - ``"split"`` (bf16): a parameter and 16 remainder bits are its fp32 value, exactly.
    - ``"kahan"`` (bf16): a parameter and a bf16 compensation, about 16 significant bits together.
    - ``"stochastic"`` (bf16): the parameter alone, rounded stochastically.
    - ``"true"``: the parameter alone; nothing is replaced, the optimizer computes in 16 bits and rounds to nearest.

    The optimizers of this package keep all of this themselves: their groups hold the model's own parameters, what a
    group says for itself wins, and their arithmetic is fp32 under ``"true"`` too.

    Under ``split``, ``kahan`` and ``stochastic`` a master has values while the optimizer steps only: between steps it
    is NaN everywhere and takes four bytes.

    Args:
        optimizer: of any class; group options stay. Optimizers that it wraps (as attributes) are included.
        kind: a recipe's ``weights``.
        moments: how an optimizer of ``mixprec.optim`` keeps its moments.
        seed: of stochastic rounding; several optimizers need several.

    Returns:
        The handle: gradients in, rounded weights out, ``restore()``.

    Raises:
        ValueError: a parameter or an optimizer that cannot be kept so.

    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.1 (masters); Zamirai et al.,
    Revisiting BFloat16 Training, arXiv:2010.06192 (stochastic rounding and Kahan sums of weight updates).

    Example:
        >>> import torch
        >>> p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
        >>> kept = keep_weights(torch.optim.SGD([p], lr=0.001), "master")
        >>> p.grad = torch.ones(4, dtype=torch.bfloat16)
        >>> kept.apply(1.0)
        >>> kept.full_weight(p)[0].item(), p[0].item()
        (0.9990000128746033, 1.0)
    """
    if isinstance(optimizer, KernelOptimizer):
        return OwnWeights(optimizer, kind, moments, seed)
    if moments.kind != "fp32":
        raise ValueError(
            f"moments of kind '{moments.kind}' are kept by mixprec.optim.AdamW and mixprec.optim.SGD, got "
            f"{type(optimizer).__name__}, which keeps its own: use one of those, or moments of kind 'fp32'"
        )
    if kind == "true":
        _check_eps(optimizer)
    return SubstitutedWeights(optimizer, kind, seed)


def _check_eps(optimizer: Optimizer) -> None:
    """Refuse an fp16 optimizer whose eps is 0 in fp16: a zero gradient would be divided by zero."""
    for group in optimizer.param_groups:
        eps = lost_eps(optimizer, group)
        if eps is not None:
            raise ValueError(
                f"weights='true' with fp16 parameters: {type(optimizer).__name__} has eps={eps}, which is 0 in fp16: a "
                "zero gradient gives 0 / 0; use weights='master', mixprec.optim.AdamW, which computes in fp32, or "
                "eps=1e-4"
            )
