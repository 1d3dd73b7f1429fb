"""The Python file of a recipe for Transformer Engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._expression import Call, Name, Value, imports_of, text_of
from .._source import docstring, layer_set, told_of_wide
from ._layer import TENSORS
from ._quantizers import IDENTITY, te

if TYPE_CHECKING:
    from ._emission import TransformerEngineEmission, TransformerEngineSetting

_CUSTOM = Name(module="transformer_engine.common.recipe", name="CustomRecipe")
_APPLY = '''\
@torch.no_grad()
def apply(model: nn.Module) -> nn.Module:
    """Replace the layers of `model` by te.Linear, in place, with their weights."""
    linear = {path for path, module in model.named_modules() if type(module) is nn.Linear}
    missing = sorted(PLANNED - linear)
    if missing:
        raise ValueError(f"no nn.Linear at {missing}: this file is for another model")
    for path in sorted(PLANNED):
        old = model.get_submodule(path)
        options = {"params_dtype": old.weight.dtype, "device": old.weight.device, "name": path}
        new = te.Linear(old.in_features, old.out_features, bias=old.bias is not None, **options)
        new.weight.copy_(old.weight).requires_grad_(old.weight.requires_grad)
        if old.bias is not None:
            new.bias.copy_(old.bias).requires_grad_(old.bias.requires_grad)
        model.set_submodule(path, new.train(old.training))
    return model
'''


def source_of(emission: TransformerEngineEmission) -> str:
    """Write the file: equal emissions give equal text."""
    kind = "its own recipe" if emission.built_in is not None else "a CustomRecipe"
    head = docstring(
        f"The precision of '{emission.recipe}' for Transformer Engine, by {kind}; layers: {len(emission.layers)}.",
        "Call apply(model) before the optimizer is made, and run forward passes in te.autocast(enabled=True, "
        "recipe=RECIPE), with RECIPE = make_recipe() made once.",
        *emission.notes,
    )
    used: list[Value] = [Name(module="torch", name="nn"), Name(module="torch", name="no_grad", alias="torch")]
    used += [te("Linear"), *_used(emission)]
    sets = [
        layer_set(f"LAYERS_{number}", setting.layers, emission.reasons)
        for number, setting in enumerate(emission.settings, 1)
    ]
    planned = " | ".join(f"LAYERS_{number}" for number in range(1, len(sets) + 1)) or "frozenset()"
    wide = told_of_wide(emission.wide, emission.kept, emission.reasons)
    parts = [
        head,
        "\n".join(imports_of(used)),
        "\n\n".join([*sets, f"PLANNED = {planned}"]),
        *(["\n".join(wide)] if wide else []),
    ]
    return "\n\n".join(parts) + f"\n\n\n{_recipe(emission)}\n\n\n{_APPLY}"


def _used(emission: TransformerEngineEmission) -> list[Value]:
    if emission.built_in is not None:
        return [emission.built_in]
    return [_CUSTOM, IDENTITY.call, *(call for setting in emission.settings for call in setting.quantizers)]


def _recipe(emission: TransformerEngineEmission) -> str:
    """The functions that make the recipe."""
    if emission.built_in is not None:
        return (
            "def make_recipe():\n"
            '    """Make the recipe for te.autocast; what is no te.Linear is not concerned."""\n'
            f"    return {text_of(emission.built_in)}"
        )
    factory = [
        "def quantizer_factory(role):",
        '    """Give a fresh quantizer of a tensor of a layer, which is known by its path."""',
        "    name, tensor = (role.name, role.tensor_type) if role is not None else (None, None)",
    ]
    for number, setting in enumerate(emission.settings, 1):
        factory += [f"    if name in LAYERS_{number}:", *_tensors(setting)]
    factory.append(f"    return {text_of(IDENTITY.call)}")
    make = ["def make_recipe():", '    """Make the recipe for te.autocast."""']
    make.append(f"    return {text_of(_CUSTOM)}(qfactory=quantizer_factory)")
    return "\n".join([*factory, "", "", *make])


def _tensors(setting: TransformerEngineSetting) -> list[str]:
    by_call: dict[Call, list[str]] = {}
    for tensor, call in zip(TENSORS, setting.quantizers, strict=True):
        by_call.setdefault(call, []).append(f'"{tensor}"')
    by_call.pop(IDENTITY.call, None)
    lines: list[str] = []
    for call, tensors in by_call.items():
        asked = f"== {tensors[0]}" if len(tensors) == 1 else f"in ({', '.join(tensors)})"
        lines.append(f"        if tensor {asked}:")
        lines.append(f"            return {text_of(call, before=19, indent=3)}")
    return lines
