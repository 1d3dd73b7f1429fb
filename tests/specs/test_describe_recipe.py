"""What recipes say of themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mixprec.specs import describe_recipe, recipe_names


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_says_what_it_is_what_it_costs_and_where_it_comes_from(name: str):
    described = describe_recipe(name)
    assert described.name == name
    for text in (described.definition, described.size, described.source, described.finding):
        assert len(text) > 10, f"{name}: a part of its docstring is missing"
        assert text.endswith((".", ")."))
        assert " ".join(text.split()) == text
    for label in ("Bytes:", "Source:", "Found:"):
        assert label not in described.definition + described.size + described.source + described.finding


def test_parts_are_taken_apart():
    described = describe_recipe("mxfp4-backward")
    assert described.definition.startswith("bf16 forward; backward in MXFP4: 3/4 of the range")
    assert described.definition.endswith("given back to the result, and nothing saturates.")
    assert (
        described.size == "2 per saved activation; 0.53 (4.25 bits) per element of the two backward products' operands."
    )
    assert described.source == "Tseng et al., Training LLMs with MXFP4, arXiv:2502.20586."
    assert described.finding.startswith("validation loss 2.51 against 2.49 of bf16")


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("nvfp4", "arXiv:2509.25149"),
        ("fp8-delayed", "NVIDIA Transformer Engine"),
        ("fp8-rowwise", "torchao"),
        ("int8", "torchao"),  # what it cites beside that is another matter
        ("mxfp4", "OCP Microscaling Formats"),
        ("fp32", "IEEE 754-2019"),
    ],
)
def test_the_source_in_few_words(name: str, reference: str):
    assert describe_recipe(name).reference == reference


def test_an_unknown_name():
    with pytest.raises(ValueError, match=r"unknown recipe 'mxfp88'.*did you mean 'mxfp8'"):
        describe_recipe("mxfp88")


def test_without_docstrings_there_are_no_words():
    program = (
        "from mixprec.specs import describe_recipe as d; print(repr(d('nvfp4').definition + d('nvfp4').reference))"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "''"), done.stderr
