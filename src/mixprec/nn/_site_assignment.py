"""Sites for every layer and function call of a model: what a recipe's rules come down to."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..specs import OPERANDS, Recipe
from ._class_swap import base_class
from ._convolution_refusals import refuse_convolution_casts
from ._function_sites import function_sites
from ._layer_types import LAYER_TYPES, converted_class, is_torchs_layer
from ._matching import Matched
from ._multihead import projections_of
from ._operand_cast import OperandCasts
from ._operands import history_name
from ._region import PATH, region_class
from ._site import SITE, STREAMS_PER_SITE, ConversionState, Site
from ._user_regions import ATTRIBUTE, apart_class

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def assign_sites(model: nn.Module, recipe: Recipe, matched: Matched, state: ConversionState, *, tracks: bool) -> None:
    """Give every registered module a site, and every other that may call functions a region.

    Args:
        model: the root.
        recipe: whose rules apply.
        matched: what they say of the modules.
        state: of the conversion.
        tracks: whether function calls may have casts, so that every module that calls some has to be known by its path.

    Raises:
        ValueError: a layer cannot multiply what a rule gives it.
    """
    sites: list[Site] = []
    stream = 0
    for name, module in model.named_modules():
        kind = base_class(module)
        if kind not in LAYER_TYPES or name in matched.alone:
            continue
        rule = matched.rules.get(name)
        casts = OperandCasts.of(None if rule is None else rule.precision)
        _check(name, module, casts)
        site = Site(name=name, casts=casts, stream=stream, state=state, kind=kind.__name__)
        stream += STREAMS_PER_SITE
        sites.append(site)
        _swap(module, site, name, is_root=module is model, tracks=tracks)
    for name, module in model.named_modules():
        if isinstance(module, nn.utils.parametrize.ParametrizationList):
            _stand_apart(module, state)
        elif module is model or _calls_functions(module, tracks) or (tracks and name in matched.alone):
            _enter_region(module, name, state)  # what is left alone calls functions by a path of its own, without rules
    state.functions, stream = function_sites(
        model, _calling_paths(model, matched), recipe, matched.structure, state, stream, {s.name for s in sites}
    )
    sites += state.functions.sites
    state.streams = stream if any(site.casts.random for site in sites) else 0
    _keep_histories(state, sites, _device(model))


def _swap(module: nn.Module, site: Site, name: str, *, is_root: bool, tracks: bool) -> None:
    """The class of a registered module: converted where its operands are not torch's own fp32."""
    kind = base_class(module)
    if site.casts.is_plain and not site.state.is_16bit:
        module.__dict__.pop(SITE, None)
        module.__class__ = kind
        if tracks and not is_root:
            _enter_region(module, name, site.state)
        return
    module.__dict__[SITE] = site
    module.__class__ = converted_class(kind)


def _stand_apart(module: nn.Module, state: ConversionState) -> None:
    if getattr(type(module), "_mixprec_maker", None) is not apart_class:
        module.__dict__[ATTRIBUTE] = state
        module.__class__ = apart_class(type(module))


def _enter_region(module: nn.Module, name: str, state: ConversionState) -> None:
    if getattr(type(module), "_mixprec_maker", None) is region_class:
        return
    module.__dict__[ATTRIBUTE], module.__dict__[PATH] = state, name
    module.__class__ = region_class(type(module))


def _calls_functions(module: nn.Module, tracks: bool) -> bool:
    """Whether a module may call functions that rules are about: any class but torch's own, and some of those."""
    if is_torchs_layer(module):
        return False
    if not base_class(module).__module__.startswith("torch.nn.") or nn.utils.parametrize.is_parametrized(module):
        return True
    return tracks and isinstance(module, nn.MultiheadAttention)


def _calling_paths(model: nn.Module, matched: Matched) -> list[str]:
    """The paths whose function calls rules are about: not those that have a site, or are left as they are."""
    paths: list[str] = []
    for name, module in model.named_modules():
        if is_torchs_layer(module) or name in matched.alone:
            continue
        paths += projections_of(name, module)
        if PATH in module.__dict__:
            paths.append(name)
    return paths


def _check(name: str, module: nn.Module, casts: OperandCasts) -> None:
    if isinstance(module, _CONVOLUTIONS):
        refuse_convolution_casts(name, casts, module.kernel_size)


def _keep_histories(state: ConversionState, sites: Iterable[Site], device: torch.device) -> None:
    """A history for every operand that has a delayed scale; those that are there already stay."""
    wanted: dict[str, Tensor] = {}
    for site in sites:
        for operand in OPERANDS:
            cast = getattr(site.casts, operand)
            if cast is not None and cast.delayed is not None:
                name = history_name(site.name, operand.partition("_")[2], cast)
                fresh = torch.zeros(cast.delayed.history + 1, device=device)
                wanted[name] = state.histories.get(name, fresh)
    state.histories.clear()
    state.histories.update(wanted)


def _device(model: nn.Module) -> torch.device:
    return next((p.device for p in model.parameters()), torch.device("cpu"))
