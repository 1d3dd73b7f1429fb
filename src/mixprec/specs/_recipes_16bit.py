"""The recipes of 32 and 16 bits, one function each."""

from __future__ import annotations

from ._loss_scale import LossScale
from ._recipe import Recipe


def fp32() -> Recipe:
    """Everything in fp32: the baseline.

    Bytes: 4 per saved activation, 4 per weight.
    Source: IEEE 754-2019, binary32.
    Found: what every gap is taken to.
    """
    return Recipe(name="fp32")


def bf16() -> Recipe:
    """Mixed bf16: fp32 weights, cast per use; products, activations in bf16; no loss scale.

    Bytes: 2 per saved activation (4 in the residual stream), 4 per weight.
    Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, arXiv:1905.12322.
    Found: fp32's accuracy on every network tried, without a loss scale.
    """
    return Recipe(name="bf16", compute_dtype="bf16")


def fp16() -> Recipe:
    """Mixed fp16: fp32 weights, cast per use; products, activations in fp16; dynamic loss scale.

    Bytes: 2 per saved activation (4 in the residual stream), 4 per weight.
    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740.
    Found: fp32's accuracy, where a loss scale keeps small gradients; without one some networks diverge.
    """
    return Recipe(name="fp16", compute_dtype="fp16", loss_scale=LossScale(kind="dynamic"))


def bf16_true() -> Recipe:
    """Everything in bf16, weights included and without a master: updates below 2**-9 of a weight are lost.

    Bytes: 2 per saved activation, 2 per weight.
    Source: Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192.
    Found: rounding the weights' updates to nearest is what loses accuracy; stochastic rounding or Kahan sums save it.
    """
    return Recipe(name="bf16-true", compute_dtype="bf16", residual="compute", weights="true")


def bf16_sr() -> Recipe:
    """Everything in bf16, weights included; their updates are rounded stochastically.

    Bytes: 2 per saved activation, 2 per weight.
    Source: Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192.
    Found: fp32's accuracy within 0.2 %; the noise weighs more as the learning rate falls, where Kahan sums are better.
    """
    return Recipe(name="bf16-sr", compute_dtype="bf16", residual="compute", weights="stochastic")


def bf16_kahan() -> Recipe:
    """Everything in bf16, weights included; a bf16 compensation keeps what rounding their updates loses.

    Bytes: 2 per saved activation, 4 per weight with its compensation.
    Source: Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192.
    Found: fp32's accuracy within 0.2 %, slightly better than stochastic rounding.
    """
    return Recipe(name="bf16-kahan", compute_dtype="bf16", residual="compute", weights="kahan")


def bf16_split() -> Recipe:
    """Everything in bf16; an fp32 weight is kept as its bf16 value and the 16 bits that it lacks, exactly.

    Bytes: 2 per saved activation, 4 per weight with its remainder.
    Source: the split optimizer of Kalamkar et al., Optimizing Deep Learning Recommender Systems, arXiv:2005.04680.
    Found: the updates of an fp32 master bit for bit, with 4 bytes in place of 6.
    """
    return Recipe(name="bf16-split", compute_dtype="bf16", residual="compute", weights="split")


def auto_placeholder() -> Recipe:
    """What runs natively here: bf16, else fp16, else emulated bf16; decided for the model's device, with the reason.

    Bytes: those of ``bf16`` or ``fp16``.
    Source: this library's own rule, ``auto_recipe``; bf16 comes first because it needs no loss scale.
    Found: see ``bf16`` and ``fp16``.
    """
    return Recipe(name="auto", compute_dtype="bf16")
