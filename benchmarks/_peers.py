"""The same roundings by other libraries, where they are installed. A peer is called with its own fast path."""

import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor

from mixprec.kernels import Draw, cast_parameters, get_backend
from mixprec.specs import parse_cast

Call = Callable[[], object]


def peers(x: Tensor) -> dict[str, Call]:
    """What can be called here, by ``library cast``."""
    makers = {"torchao": _torchao, "qtorch": _qtorch, "gfloat": _gfloat, "ml_dtypes": _ml_dtypes}
    found: dict[str, Call] = {"torch e4m3": lambda: x.clamp(-448, 448).to(torch.float8_e4m3fn).float()}
    for library, make in makers.items():
        if importlib.util.find_spec(library):
            found |= make(x)
    return found | _reference(x)


def _reference(x: Tensor) -> dict[str, Call]:
    reference = get_backend("reference")
    calls: dict[str, Call] = {}
    for name in ("e4m3", "mxfp8"):
        parameters = cast_parameters(parse_cast(name))
        calls[f"reference {name}"] = lambda p=parameters: reference.scaled(x, p, 1, Draw())
        compiled = torch.compile(lambda t, p=parameters: reference.scaled(t, p, 1, Draw())[0])
        calls[f"Inductor reference {name}"] = lambda f=compiled: f(x)
    return calls


def _torchao(x: Tensor) -> dict[str, Call]:
    from torchao.prototype.mx_formats.mx_tensor import MXTensor

    return {
        "torchao mxfp8": lambda: MXTensor.to_mx(x, torch.float8_e4m3fn, 32).dequantize(torch.float32),
        "torchao mxfp4": lambda: MXTensor.to_mx(x, torch.float4_e2m1fn_x2, 32).dequantize(torch.float32),
    }


def _qtorch(x: Tensor) -> dict[str, Call]:
    from qtorch.quant import float_quantize

    return {
        "qtorch e4m3": lambda: float_quantize(x, exp=4, man=3, rounding="nearest"),
        "qtorch e4m3 sr": lambda: float_quantize(x, exp=4, man=3, rounding="stochastic"),
    }


def _gfloat(x: Tensor) -> dict[str, Call]:
    from gfloat import round_ndarray
    from gfloat.formats import format_info_ocp_e4m3

    values = x.numpy().astype("float64")
    return {"gfloat e4m3": lambda: round_ndarray(format_info_ocp_e4m3, values, sat=True)}


def _ml_dtypes(x: Tensor) -> dict[str, Call]:
    import ml_dtypes

    values = x.numpy()
    return {
        "ml_dtypes e4m3": lambda: values.astype(ml_dtypes.float8_e4m3fn).astype("float32"),
        "ml_dtypes bf16": lambda: values.astype(ml_dtypes.bfloat16).astype("float32"),
    }
