"""Every kernel compiles for GPUs of three generations, without one, and its code rounds each operation by itself."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from mixprec.kernels import Draw, SignKey, Sums, cast_parameters
from mixprec.specs import parse_cast

triton = pytest.importorskip("triton")

ARCHITECTURES = (80, 90, 100)
ONE_ARCHITECTURE = pytest.mark.parametrize("architecture", [90], indirect=True)  # where they do not differ
DRAW = Draw(5, 2**40 + 1, 2**62 + 3)
SUMS = Sums(mantissa_bits=13, rounding="nearest-even", promote_every=32)


class Device:
    """What Triton asks of a driver before it compiles; nothing can be launched."""

    def __init__(self, architecture: int) -> None:
        self._architecture = architecture

    def get_current_device(self) -> int:
        return self._architecture  # one cache of compiled kernels for each

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        return triton.backends.compiler.GPUTarget("cuda", self._architecture, 32)


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    from triton.runtime.driver import driver

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
        patch.setattr(driver, "_active", Device(request.param))
        yield request.param


Compile = Callable[..., list[Any]]


@pytest.fixture
def compile_kernels(architecture: int) -> Compile:
    """Compiles, as a GPU would, whatever a method of the backend launches."""
    from mixprec.kernels.triton._kernels import TritonKernels
    from mixprec.kernels.triton._launch import OPTIONS, Launch

    def compile_kernels(call: Callable[[Any], object], **options: bool) -> list[Any]:
        compiled: list[Any] = []

        def keep(launch: Launch) -> None:
            kernel = launch.kernel.run(
                **launch.arguments, num_warps=launch.warps, **(OPTIONS | options), grid=(launch.programs,), warmup=True
            )
            assert kernel.metadata.target.arch == architecture
            compiled.append(kernel)

        call(TritonKernels(keep))
        assert compiled
        return compiled

    return compile_kernels


def operations(kernel: Any) -> set[str]:
    """The floating-point operations of a kernel's PTX, by name."""
    return set(re.findall(r"^\s*(?:@%p\d+\s+)?((?:\w+\.)+f(?:32|64)(?:\.\w+)*)\s", kernel.asm["ptx"], re.MULTILINE))


def check(kernels: list[Any]) -> None:
    for kernel in kernels:
        names = operations(kernel)
        assert len(kernel.asm["cubin"]) > 1000
        assert not [name for name in names if name.startswith(("fma", "mad"))], kernel.name
        assert not [name for name in names if "ftz" in name or "approx" in name or "full" in name], kernel.name
        # Without a rounding of its own an operation may be fused with the next, by the assembler.
        assert not [n for n in names if n.split(".")[0] in ("add", "sub", "mul", "div", "sqrt") and ".rn" not in n]


CASTS = [
    ("e4m3 sr", 1),
    ("e5m2[tensor:e8m0] ceil propagate", 1),
    ("e4m3[row]", 0),
    ("mxfp8 rceil", 1),
    ("mxfp4 x3/4 sr rht64-fresh", 0),
    ("nvfp4 sr rht16", 1),
    ("nvfp4-2d", 0),
    ("e4m3[128x128:fp32]", 1),
    ("nvfp4 4/6", 1),
    ("mxfp4 quest ht32", 1),
    ("nf4[1x64:fp32] sr", 1),
]


@pytest.mark.parametrize(("cast", "axis"), CASTS)
def test_casts_compile(compile_kernels: Compile, cast: str, axis: int) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), torch.randn(256, 512)
    check(compile_kernels(lambda triton: triton.scaled(x, parameters, axis, DRAW)))


@ONE_ARCHITECTURE
@pytest.mark.parametrize("cast", ["mxfp6", "nvfp4", "int4[row]"])
def test_codes_compile(compile_kernels: Compile, cast: str) -> None:
    parameters, x = cast_parameters(parse_cast(cast)), torch.randn(64, 256).bfloat16()

    def there_and_back(triton: Any) -> None:
        triton.dequantize(*triton.quantize(x, parameters, 1, DRAW), parameters, x.shape, 1)

    check(compile_kernels(there_and_back))


def test_the_other_kernels_compile(compile_kernels: Compile) -> None:
    x, delayed = torch.randn(64, 256), cast_parameters(parse_cast("e4m3[tensor] delayed"))
    large = cast_parameters(parse_cast("e2m1[80x80:e8m0] quest"))
    check(compile_kernels(lambda triton: triton.delayed(x, delayed, DRAW, torch.ones(()))))
    check(compile_kernels(lambda triton: triton.hadamard(x, 128, SignKey(-1, 7), 0, True)))
    check(compile_kernels(lambda triton: triton.scaled(x.half().T, large, 1, DRAW)))
    check(compile_kernels(lambda triton: triton.narrow_product(x, x.T, SUMS)))


@ONE_ARCHITECTURE
def test_fusion_is_what_the_option_forbids(compile_kernels: Compile) -> None:
    """The same kernels with fusion: the products are fused, which the checks above would find."""
    x, choice = torch.randn(64, 256), cast_parameters(parse_cast("nvfp4 4/6"))
    for call in (
        lambda triton: triton.scaled(x, choice, 1, DRAW),
        lambda triton: triton.narrow_product(x, x.T, SUMS),
    ):
        fused = compile_kernels(call, enable_fp_fusion=True)[-1]
        with pytest.raises(AssertionError):
            check([fused])


@ONE_ARCHITECTURE
def test_random_numbers_are_no_reason_to_compile_again(compile_kernels: Compile) -> None:
    parameters, x = cast_parameters(parse_cast("e4m3 sr")), torch.randn(64)
    draws = (Draw(0, 0), Draw(1, 1), Draw(16, 32), Draw(-(2**63), 2**63 - 1))
    kernels = [compile_kernels(lambda triton, draw=draw: triton.round(x, parameters, draw))[0] for draw in draws]
    assert len({kernel.hash for kernel in kernels}) == 1
