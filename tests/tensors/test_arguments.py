"""What is no tensor, cast or seed is refused in words."""

from __future__ import annotations

import pytest
import torch

from mixprec.specs import parse_cast
from mixprec.tensors import error, fake_quantize, quantize

X = torch.linspace(-1, 1, 32)


@pytest.mark.parametrize("function", [quantize, fake_quantize, error])
@pytest.mark.parametrize(("x", "kind"), [([1.0, 2.0], "list"), (None, "NoneType"), (3.0, "float")])
def test_x_must_be_a_tensor(function, x, kind):
    with pytest.raises(TypeError, match=rf"{function.__name__}: x is a {kind}, expected a torch.Tensor"):
        function(x, "mxfp8")


@pytest.mark.parametrize("function", [quantize, fake_quantize, error])
@pytest.mark.parametrize("cast", [3, None, torch.float16])
def test_the_cast_must_be_one(function, cast):
    with pytest.raises(TypeError, match=r"cast is .*, expected a Cast or its one-line form such as 'mxfp8'"):
        function(X, cast)


@pytest.mark.parametrize("function", [quantize, fake_quantize])
@pytest.mark.parametrize("seed", ["a", 1.5, [1]])
def test_the_seed_must_be_an_integer(function, seed):
    with pytest.raises(TypeError, match=r"seed is .*, expected an integer"):
        function(X, "mxfp4 sr", seed=seed)


def test_one_cast_alone_has_a_table_of_one_row():
    for one in ("mxfp8", parse_cast("mxfp8")):
        assert error(X, one) == error(X, ["mxfp8"])
    with pytest.raises(TypeError, match="cast is 3"):
        error(X, ["mxfp8", 3])
    with pytest.raises(ValueError, match="unknown format 'mxfp88'"):
        error(X, "mxfp88")
