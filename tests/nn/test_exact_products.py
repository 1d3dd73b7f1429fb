"""Emulated products multiply in full fp32, whatever torch was told to be fast with."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mixprec.nn import convert
from mixprec.nn._exact_product import convolution_precision, exact_convolutions

from .test_convert import quiet_compiler

FLAGS = {"cuda": torch.backends.cudnn.conv, "cpu": torch.backends.mkldnn.conv}


@pytest.fixture(autouse=True)
def _flags_come_back() -> Generator[None]:
    before = {kind: flags.fp32_precision for kind, flags in FLAGS.items()}
    yield
    for kind, flags in FLAGS.items():
        flags.fp32_precision = before[kind]


@pytest.mark.parametrize("kind", FLAGS)
@pytest.mark.parametrize("before", ["tf32", "ieee"])
def test_the_flag_is_set_and_comes_back(kind: str, before: str) -> None:
    FLAGS[kind].fp32_precision = before
    with exact_convolutions(kind):
        assert FLAGS[kind].fp32_precision == "ieee"
    assert FLAGS[kind].fp32_precision == before
    with pytest.raises(KeyError), exact_convolutions(kind):
        raise KeyError
    assert FLAGS[kind].fp32_precision == before


def test_torchs_own_default_for_cuda_is_not_exact() -> None:
    assert convolution_precision("cuda") == "tf32"


@pytest.mark.parametrize("kind", ["conv", "transposed"])
def test_every_convolution_of_a_layer_is_exact(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Watched(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if "convolution" in func._schema.name:
                seen.append(FLAGS["cpu"].fp32_precision)
            return func(*args, **(kwargs or {}))

    monkeypatch.setattr("mixprec.nn._convert.native_compute", lambda device, dtype: False)
    model = nn.Sequential(nn.Conv2d(2, 3, 3) if kind == "conv" else nn.ConvTranspose2d(2, 3, 3))
    x = torch.randn(1, 2, 6, 6, requires_grad=True)
    convert(model, "mxfp8" if kind == "conv" else "bf16")
    FLAGS["cpu"].fp32_precision = "tf32"
    with Watched():
        model(x).sum().backward()
    assert len(seen) >= 2
    assert set(seen) == {"ieee"}
    assert FLAGS["cpu"].fp32_precision == "tf32"


@quiet_compiler
def test_a_compiled_convolution_asks_for_the_flag() -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(2, 3, 3))
    convert(model, "mxfp8")
    x = torch.randn(1, 2, 6, 6)
    FLAGS["cpu"].fp32_precision = "tf32"
    graph = torch.compile(model, backend="aot_eager", fullgraph=True)
    with pytest.raises(Exception, match=r"torch\.backends\.mkldnn\.conv\.fp32_precision is 'tf32': expected 'ieee'"):
        graph(x)
    FLAGS["cpu"].fp32_precision = "ieee"
    torch._dynamo.reset()
    want: Tensor = model(x)
    assert torch.equal(graph(x), want)
