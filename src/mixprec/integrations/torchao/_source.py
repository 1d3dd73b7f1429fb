"""The Python file of a recipe for torchao."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._expression import Name, Value, imports_of, text_of
from .._source import docstring, layer_set, told_of_wide

if TYPE_CHECKING:
    from ._emission import TorchaoEmission, TorchaoSetting


def source_of(emission: TorchaoEmission) -> str:
    """Write the file: equal emissions give equal text."""
    head = docstring(
        f"The precision of '{emission.recipe}' for torchao; layers: {len(emission.layers)}, configs: "
        f"{len(emission.settings)}.",
        "Call apply(model) before the optimizer is made.",
        *emission.notes,
    )
    used: list[Value] = [Name(module="torch", name="nn")]
    for setting in emission.settings:
        used += [setting.config, setting.converter]
    parts = [head, "\n".join(imports_of(used))]
    for number, setting in enumerate(emission.settings, 1):
        parts.append(
            f"{layer_set(f'LAYERS_{number}', setting.layers, emission.reasons)}\n"
            f"CONFIG_{number} = {text_of(setting.config, before=len(f'CONFIG_{number} = '))}"
        )
    wide = told_of_wide(emission.wide, emission.kept, emission.reasons)
    body = "\n\n".join([*parts, *(["\n".join(wide)] if wide else [])])
    return f"{body}\n\n\n{_apply(emission.settings)}\n"


def _apply(settings: tuple[TorchaoSetting, ...]) -> str:
    numbers = range(1, len(settings) + 1)
    planned = " | ".join(f"LAYERS_{number}" for number in numbers) or "frozenset()"
    planned = f"({planned})" if len(settings) > 1 else planned
    lines = [
        "def apply(model: nn.Module) -> nn.Module:",
        '    """Convert the layers of `model` in place."""',
        "    linear = {path for path, module in model.named_modules() if type(module) is nn.Linear}",
        f"    missing = sorted({planned} - linear)",
        "    if missing:",
        '        raise ValueError(f"no nn.Linear at {missing}: this file is for another model")',
    ]
    for number, setting in zip(numbers, settings, strict=True):
        convert, takes = text_of(setting.converter), f"lambda module, path: path in LAYERS_{number}"
        if setting.is_float8:
            lines.append(f"    {convert}(model, config=CONFIG_{number}, module_filter_fn={takes})")
        else:
            lines.append(f"    {convert}(model, CONFIG_{number}, filter_fn={takes})")
    return "\n".join([*lines, "    return model"])
