"""Scripts of the usual shape run with only the import changed, and learn what they learn in fp32."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.compat.apex_amp import dcgan_script, imagenet_script


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["--opt-level", "O0"],
        ["--opt-level", "O1"],
        ["--opt-level", "O2"],
        ["--opt-level", "O2", "--loss-scale", "128.0", "--keep-batchnorm-fp32", "False"],
        ["--opt-level", "O3", "--keep-batchnorm-fp32", "True"],
    ],
    ids=" ".join,
)
def test_imagenet(arguments: list[str]) -> None:
    result = imagenet_script.main(arguments)
    assert result["best"] > 0.5
    state = result["state_dict"]
    assert isinstance(state, dict)
    is_o3 = "O3" in arguments
    assert state["fc.weight"].dtype == (torch.float16 if is_o3 else torch.float32)
    assert all(torch.isfinite(v).all() for v in state.values())


@pytest.mark.parametrize("opt_level", ["O1", "O2"])
def test_dcgan_follows_fp32(opt_level: str) -> None:
    wanted, found = dcgan_script.main("O0"), dcgan_script.main(opt_level)
    assert found["scales"] == [2.0**16] * 3
    for name in ("d_real", "d_fake", "g", "weight"):
        assert found[name] == pytest.approx(wanted[name], rel=0.02)
    assert found["d_real"][-1] < 0.9 * found["d_real"][0]


def test_dcgan_at_o3_needs_an_eps_that_fp16_holds() -> None:
    with pytest.raises(ValueError, match="eps=1e-4"):
        dcgan_script.main("O3")
    found = dcgan_script.main("O3", eps=1e-4)
    assert all(math.isfinite(value) for values in found.values() for value in values)
    assert found["d_real"][-1] < found["d_real"][0]


def test_a_script_by_itself() -> None:
    path = Path(dcgan_script.__file__)
    root = path.parents[3]
    program = f"import sys; sys.path[:0] = [{str(root / 'src')!r}, {str(root)!r}]; import runpy; "
    program += f"runpy.run_path({str(path)!r}, run_name='__main__')"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "'scales': [65536.0, 65536.0, 65536.0]" in finished.stdout
