"""What is no tensor, cast or seed is refused in words."""

from __future__ import annotations

import math

import pytest
import torch

from mixprec import kernels
from mixprec.specs import parse_cast
from mixprec.tensors import analyze_file, error, fake_quantize, quantize

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


DELAYED = "e4m3[tensor] delayed"


@pytest.mark.parametrize("function", [quantize, fake_quantize])
@pytest.mark.parametrize(
    "amax",
    [-1.0, -0.5, math.nan, math.inf, 1e39, torch.tensor(-1.0), torch.tensor(math.nan), torch.tensor(1e300).double()],
)
def test_an_amax_is_a_finite_magnitude(function, amax):
    expected = r"amax is -?[0-9.e+infa]+, expected a finite number of fp32, 0 or more \(0: the tensor's own\)"
    with pytest.raises(ValueError, match=expected):
        function(X, DELAYED, amax=amax)


@pytest.mark.parametrize("function", [quantize, fake_quantize])
@pytest.mark.parametrize("amax", ["1", True, [1.0, 2.0], 1j])
def test_an_amax_is_a_number(function, amax):
    with pytest.raises(TypeError, match=r"amax is .*, expected one number or a tensor of one"):
        function(X, DELAYED, amax=amax)


@pytest.mark.parametrize("function", [quantize, fake_quantize])
@pytest.mark.parametrize("amax", [torch.ones(2), torch.ones(0), torch.tensor(True), torch.tensor(1j)])
def test_an_amax_is_one_number(function, amax):
    with pytest.raises(TypeError, match=r"amax is .*, expected one number or a tensor of one"):
        function(X, DELAYED, amax=amax)


def test_a_tensor_of_one_number_is_an_amax():
    right = fake_quantize(X, DELAYED, amax=2.0)
    for amax in (2, torch.tensor(2), torch.tensor([2.0]), torch.tensor([[2.0]], dtype=torch.bfloat16)):
        assert fake_quantize(X, DELAYED, amax=amax).equal(right)
        assert quantize(X, DELAYED, amax=amax).dequantize().equal(right)


@pytest.mark.parametrize("amax", [-1.0, math.nan, math.inf])
def test_kernels_refuse_an_amax_that_is_no_magnitude(amax):
    with pytest.raises(ValueError, match=r"amax of a delayed scale is .*, expected a finite number, 0 or more"):
        kernels.delayed(X.reshape(1, -1), DELAYED, torch.tensor(amax))


@pytest.mark.parametrize("function", [quantize, fake_quantize, error])
def test_x_must_be_dense_and_have_values(function):
    with pytest.raises(ValueError, match=rf"{function.__name__}: x is torch.sparse_coo, expected a dense .*to_dense"):
        function(X.to_sparse(), "mxfp8")
    with pytest.raises(ValueError, match="error: x is on the meta device, which holds no values"):
        error(X.to("meta"), "mxfp8")


@pytest.mark.parametrize("cast", ["mxfp4", "mxfp4 sr"])
@pytest.mark.parametrize("function", [quantize, fake_quantize, error])
@pytest.mark.parametrize(("seed", "kind"), [("a", TypeError), (1.5, TypeError), (True, TypeError), (2**63, ValueError)])
def test_a_seed_is_64_bits_whether_or_not_it_is_used(function, cast, seed, kind):
    with pytest.raises(kind, match=r"seed is .*, expected an integer of 64 bits"):
        function(X, cast, seed=seed)


def test_an_offset_is_64_bits():
    with pytest.raises(ValueError, match=r"offset is .*, expected an integer of 64 bits"):
        quantize(X, "mxfp4 sr", seed=0, offset=2**63)
    with pytest.raises(TypeError, match=r"offset is 'a' \(str\), expected an integer of 64 bits"):
        quantize(X, "mxfp4", offset="a")


@pytest.mark.parametrize("cast", ["mxfp4", "e4m3"])
def test_out_must_be_a_tensor(cast):
    with pytest.raises(TypeError, match=r"fake_quantize: out is a list, expected a torch.Tensor"):
        fake_quantize(X, cast, out=[1.0])


def test_error_wants_a_cast():
    with pytest.raises(ValueError, match="error: no cast to try: expected at least one, such as 'mxfp8'"):
        error(X, [])


def test_a_file_is_analyzed_under_one_cast_alone(tmp_path):
    file = tmp_path / "w.pt"
    torch.save({"w": X.reshape(1, -1)}, file)
    for one in ("mxfp8", parse_cast("mxfp8")):
        assert analyze_file(file, one).rows == analyze_file(str(file), ["mxfp8"]).rows
    for casts in (3, [3], None):
        with pytest.raises(TypeError, match=r"cast is .*, expected a Cast or its one-line form"):
            analyze_file(file, casts)
    for name, arguments in (("path", (None, "mxfp8")), ("path", (3, "mxfp8"))):
        with pytest.raises(TypeError, match=f"analyze_file: {name} is .*, expected a text"):
            analyze_file(*arguments)
    with pytest.raises(TypeError, match="analyze_file: match is None"):
        analyze_file(file, "mxfp8", match=None)
