"""The recipes of 32 and 16 bits, one function each."""

from __future__ import annotations

from ._loss_scale import LossScale
from ._recipe import Recipe


def fp32() -> Recipe:
    """Everything in fp32: the baseline. 4 bytes per saved activation, 4 per weight."""
    return Recipe(name="fp32")


def bf16() -> Recipe:
    """Mixed bf16: fp32 weights, cast per use; products, activations in bf16; no loss scale.

    2 bytes per saved activation (4 in the residual stream), 4 per weight.
    Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, arXiv:1905.12322: fp32's accuracy
    on every network tried, without a loss scale.
    """
    return Recipe(name="bf16", compute_dtype="bf16")


def fp16() -> Recipe:
    """Mixed fp16: fp32 weights, cast per use; products, activations in fp16; dynamic loss scale.

    2 bytes per saved activation (4 in the residual stream), 4 per weight.
    Source: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740: fp32's accuracy, where a loss scale
    keeps small gradients.
    """
    return Recipe(name="fp16", compute_dtype="fp16", loss_scale=LossScale(kind="dynamic"))


def bf16_true() -> Recipe:
    """Everything in bf16, weights included and without a master: updates below 2**-9 of a weight are lost.

    2 bytes per saved activation, 2 per weight.
    Source of the warning: Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192.
    """
    return Recipe(name="bf16-true", compute_dtype="bf16", residual="compute", weights="true")


def auto_placeholder() -> Recipe:
    """What runs natively here: bf16, else fp16, else emulated bf16. ``auto_recipe`` decides, per device."""
    return Recipe(name="auto", compute_dtype="bf16")
