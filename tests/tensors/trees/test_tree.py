"""Trees of state as JSON and tensors: back exactly, or refused by the path."""

from __future__ import annotations

import datetime
import json
import math
import random
import struct
from collections import Counter, OrderedDict, defaultdict
from enum import IntEnum

import numpy as np
import pytest
import torch
from safetensors.torch import load as load_safetensors

from mixprec.tensors.trees import PackedState, pack_state, tensor_file_chunks, unpack_state


def back(value):
    """Through the bytes of both files."""
    packed = pack_state({"part": value})
    files = {part: b"".join(tensor_file_chunks(tensors)) for part, tensors in packed.tensors.items()}
    tensors = {part: load_safetensors(data) for part, data in files.items()}
    return unpack_state(PackedState(json.loads(json.dumps(packed.structure)), tensors))["part"]


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape, bits(a)) == (b.dtype, b.shape, bits(b))
    elif isinstance(a, np.ndarray | np.generic):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, dict):
        assert list(map(repr, a)) == list(map(repr, b))  # nan is not itself
        for x, y in zip(a.values(), b.values(), strict=True):
            same(x, y)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, complex):
        same([a.real, a.imag], [b.real, b.imag])
    elif isinstance(a, float):
        assert struct.pack("d", a) == struct.pack("d", b)
    else:
        assert a == b


PAYLOAD = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_1234))[0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, False, 0, 1, -1, 2**53 + 1, -(2**63), 2**128 + 7],
        [0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, PAYLOAD],
        ["", "a.b/c", "ü\n\0", "\ud800", "$tensor"],
        [b"", b"\0\xff", 1 + 2j, complex(math.nan, -0.0)],
        (1, (2, [3, ()]), {"a": (None,)}),
        {1: "int", "1": "text", True and 2: 0, (1, "a"): 1, None: 2, 0.5: 3},
        {"$tensor": ["part", "x"], "plain": {"$int": 3}},
        {},
        OrderedDict([("b", 1), ("a", 2)]),
        Counter({3: 2, 5: 1}),
        [{1, 2}, frozenset({"a"}), set()],
        [torch.Size([2, 3]), torch.bfloat16, torch.device("cuda:1")],
        [np.float64(0.1), np.int32(-3), np.bool_(True), np.float32("nan")],
        [np.arange(6, dtype=np.uint32).reshape(2, 3).T, np.zeros((0, 3)), np.array(1.5)],
        random.Random(3).getstate(),
        np.random.RandomState(3).get_state(),
        np.random.default_rng(3).bit_generator.state,
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values_come_back(value):
    same(back(value), value)


DTYPES = [
    dtype
    for name in sorted(dir(torch))
    if isinstance(dtype := getattr(torch, name), torch.dtype)
    and not name.startswith(("q", "int1", "int2", "int3", "int4", "int5", "int6", "int7", "uint1", "uint2", "uint3"))
    and name not in ("bit", "uint4", "uint5", "uint6", "uint7", "complex32", "chalf")
] + [torch.int16, torch.int32, torch.uint16, torch.uint32]


@pytest.mark.parametrize("dtype", sorted(set(DTYPES), key=str), ids=str)
def test_tensors_of_every_dtype_come_back(dtype):
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (192,), dtype=torch.uint8)
    vector = raw.view(dtype)
    cases = [vector, vector[0], vector[:0], vector[:0].reshape(0, 3), vector[::2], vector[:6].reshape(2, 3).T]
    same(back(cases), cases)


def test_strides_come_back():
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    wide = torch.randn(2, 3).expand(4, 2, 3)
    loaded = back({"image": image, "t": torch.randn(3, 4).T, "wide": wide})
    assert loaded["image"].stride() == image.stride()
    assert loaded["t"].stride() == (1, 4)
    assert loaded["wide"].is_contiguous(), "what shares elements gets its own"
    assert torch.equal(loaded["wide"], wide)


def test_conjugated_and_negated_views_are_values():
    z = torch.randn(3, dtype=torch.complex64)
    loaded = back({"z": z, "conj": z.conj(), "negative": z.conj().imag})
    assert torch.equal(loaded["conj"], z.conj())
    assert torch.equal(loaded["negative"], -z.imag)


def test_one_tensor_is_stored_once_and_one_again():
    w = torch.nn.Parameter(torch.randn(2, 3))
    packed = pack_state({"a": {"x": w, "y": w.detach()}, "b": [w, w.T, w.detach().clone()]})
    assert {part: list(tensors) for part, tensors in packed.tensors.items()} == {"a": ["x"], "b": ["1", "2"]}
    loaded = unpack_state(packed)
    assert loaded["a"]["x"] is loaded["a"]["y"] is loaded["b"][0]
    assert loaded["b"][2] is not loaded["b"][0]
    assert not loaded["a"]["x"].requires_grad


def test_names_that_collide_are_kept_apart():
    value = {"a": {"b": torch.ones(1)}, "a.b": torch.zeros(1), "__metadata__": torch.ones(2), "a.b#2": torch.ones(3)}
    same(back(value), value)
    same(back(torch.ones(2)), torch.ones(2))


class Color(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"a": [0, datetime.date.min]}, TypeError, r"save: part\.a\.1 is a datetime\.date.*its state_dict\(\)"),
        (Color.RED, TypeError, r"save: part is a .*Color.*give int\(\.\.\.\) of it"),
        (defaultdict(int), TypeError, "defaultdict"),
        (lambda: 0, TypeError, "function"),
        (np.array([object()]), TypeError, "ndarray"),
        ({"x": torch.eye(2).to_sparse()}, ValueError, r"part\.x is a tensor that is sparse.*to_dense"),
        (torch.empty(2, device="meta"), ValueError, r"without data \(meta\)"),
        (torch.nn.Buffer(torch.ones(2)).as_subclass(type("Sub", (torch.Tensor,), {})), TypeError, "Sub.*plain tensors"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_path(value, error, message):
    with pytest.raises(error, match=message):
        pack_state({"part": value})


def test_a_container_that_holds_itself_is_refused():
    loop = [1]
    loop.append({"again": loop})
    with pytest.raises(ValueError, match=r"part\.1\.again holds itself"):
        pack_state({"part": loop})


def test_a_mark_of_a_later_version_is_refused():
    with pytest.raises(ValueError, match=r"marked \$new, which this version of mixprec does not know"):
        unpack_state(PackedState({"part": [{"$new": 1}]}, {}))
    with pytest.raises(ValueError, match="tensor x of part, which is not there"):
        unpack_state(PackedState({"part": {"$tensor": ["part", "x"]}}, {}))
