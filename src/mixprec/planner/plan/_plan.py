"""A plan: a recipe that was found by measurement, with its evidence."""

from __future__ import annotations

import os
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from ...specs import Recipe, load_recipe
from ._evidence import Evidence


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recipe that was found by measurement, with its evidence.

    Its file is an ordinary recipe, which ``load_recipe`` reads, with the evidence in a table ``[plan]``.

    Attributes:
        recipe: to train under.
        evidence: what it rests on.
    """

    recipe: Recipe
    evidence: Evidence

    def to_toml(self) -> str:
        """Write recipe and evidence as TOML text, which ``from_toml`` reads back to an equal plan."""
        import tomlkit  # costs some milliseconds, which only who writes a file should pay

        table = cast("dict[str, Any]", _plain(asdict(self.evidence)))
        groups = table.pop("groups")
        document = tomlkit.document()
        plan = tomlkit.item(table)  # pyright: ignore[reportUnknownMemberType]
        plan["groups"] = tomlkit.aot()
        for group in groups:
            options = tomlkit.array().multiline(True)
            for option in group.pop("options"):
                options.append({name: value for name, value in option.items() if value != "" and name != "group"})
            made = tomlkit.item(group)  # pyright: ignore[reportUnknownMemberType]
            made["options"] = options
            plan["groups"].append(made)
        document.add("plan", plan)
        return f"{self.recipe.to_toml()}\n{tomlkit.dumps(document)}"  # pyright: ignore[reportUnknownMemberType]

    @classmethod
    def from_toml(cls, text: str) -> Plan:
        """Read a plan from TOML text.

        Raises:
            ValueError: no recipe, or one without evidence that can be read.
        """
        recipe = Recipe.from_toml(text)
        table = tomllib.loads(text).get("plan")
        if table is None:
            raise ValueError(
                f"recipe '{recipe.name}' has no table [plan]: it was written by hand, not by `mixprec plan`, and there "
                "is no evidence to tell"
            )
        return cls(recipe=recipe, evidence=_read(table))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan's file.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is no plan.
        """
        load_recipe(Path(os.path.abspath(path)))  # tells what is wrong with the recipe, by its file's name
        try:
            return cls.from_toml(Path(path).read_text(encoding="utf-8-sig"))
        except ValueError as error:
            raise ValueError(f"plan '{path}': {error}") from error


def _plain(value: Any) -> Any:
    """What TOML can hold: tables without the fields that are ``None`` and lists for tuples."""
    if isinstance(value, dict):
        return {str(name): _plain(v) for name, v in cast("dict[str, Any]", value).items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[Any]", value)]
    return value


def _read(table: dict[str, Any]) -> Evidence:
    from pydantic import TypeAdapter, ValidationError  # costs a tenth of a second

    for group in table.get("groups", []):
        for option in group.get("options", []):
            option.setdefault("group", group.get("name"))
    try:
        return TypeAdapter(Evidence).validate_python(table)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(
            f"[plan] cannot be read at {place}: {first['msg'].lower()}, got {first['input']!r}; it is written by "
            "`mixprec plan`, of another version perhaps"
        ) from None
