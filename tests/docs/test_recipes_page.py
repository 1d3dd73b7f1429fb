"""docs/recipes.md is in step with the recipes."""

from __future__ import annotations

import re

from mixprec.specs import Recipe, recipe_names
from tests.docs.write_recipes import PAGE, renewed, section


def test_the_page_lists_what_the_recipes_say():
    page = PAGE.read_text(encoding="utf-8")
    assert page == renewed(page), "run: python -m tests.docs.write_recipes"
    assert re.findall(r"^### `(.*)`$", page, re.MULTILINE) == list(recipe_names())


def test_a_section_tells_casts_bytes_and_source():
    text = section("nvfp4")
    assert "- The last 15 % of the blocks: `bf16` for every operand.\n- The head: `bf16` for every operand.\n" in text
    assert "fprop `nvfp4` x `nvfp4-2d`; dgrad `nvfp4 sr` x `nvfp4-2d`; wgrad `nvfp4 sr rht16` x `nvfp4 rht16`" in text
    assert "- Bytes: 0.56 (4.5 bits)" in text
    assert "[arXiv:2509.25149](https://arxiv.org/abs/2509.25149)" in text


def test_the_marks_stay():
    page = PAGE.read_text(encoding="utf-8")
    assert renewed(page.replace("### `fp8`", "### `pf8`")) == page


def test_the_example_of_a_file_is_a_recipe():
    (text,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    made = Recipe.from_toml(text)
    assert [rule.is_structural for rule in made.rules] == [True, True, False, False]
    assert (made.compute_dtype, made.needs_total_steps) == ("bf16", True)
