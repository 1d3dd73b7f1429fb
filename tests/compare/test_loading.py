from __future__ import annotations

from pathlib import Path

import pytest

from mixprec.compare import Workload, WorkloadError, load_workload

GOOD = """
import torch
import mixprec

def workload(seed, device, steps=7):
    x = torch.ones(4, 2)
    return mixprec.Workload(
        model=torch.nn.Linear(2, 1), loss=lambda model, batch: model(batch).sum(), batches=lambda step: x, steps=steps,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), evaluate=lambda model: {"loss": 0.0},
    )
"""


def write(folder: Path, text: str, name: str = "my.py") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_a_file_of_the_users(tmp_path: Path):
    job = load_workload(write(tmp_path, GOOD)).build(0, "cpu")
    assert isinstance(job, Workload)
    assert (job.name, job.steps) == ("my", 7)
    assert len(job.data["workload_sha256"]) == 64


def test_steps_reach_the_function_that_takes_them(tmp_path: Path):
    assert load_workload(write(tmp_path, GOOD), steps=3).options == {"steps": 3}
    fixed = GOOD.replace(", steps=7", "").replace("steps=steps", "steps=7")
    source = load_workload(write(tmp_path, fixed, "fixed.py"), steps=3)
    assert source.options == {}
    assert source.build(0, "cpu").steps == 3


def test_a_file_may_import_its_neighbours(tmp_path: Path):
    write(tmp_path, "WIDTH = 2", "neighbour_of_my.py")
    write(tmp_path, "from neighbour_of_my import WIDTH\n" + GOOD)
    assert load_workload(str(tmp_path / "my.py")).build(0, "cpu").steps == 7


def test_building_leaves_the_callers_random_state(tmp_path: Path):
    import torch

    source = load_workload(write(tmp_path, GOOD))
    before = torch.random.get_rng_state()
    first, again = source.build(0, "cpu").model, source.build(0, "cpu").model
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.weight, again.weight), "a function that seeds nothing is seeded"


def test_unknown_name_offers_the_nearest():
    with pytest.raises(ValueError, match=r"unknown workload 'gtp': expected one of gpt, .*did you mean 'gpt'\?"):
        load_workload("gtp")


def test_missing_file():
    with pytest.raises(FileNotFoundError):
        load_workload("nowhere.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def work(seed, device): ...", r"has no function workload\(seed, device\): its functions are work; .*init"),
        ("", r"it defines no function"),
        ("workload = 3", r"has no function workload"),
        (
            "x = 1\n\nraise RuntimeError('no\\nluck')",
            r"loading .*my.py failed: .*my.py, line 3: RuntimeError: no luck$",
        ),
        ("import nothing_of_that_name", r"line 1: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("def workload(:", r"my.py, line 1: SyntaxError"),
        ("raise SystemExit('usage: train')", r"line 1: SystemExit: usage: train"),
    ],
)
def test_files_that_do_not_load(tmp_path: Path, text: str, message: str):
    with pytest.raises(WorkloadError, match=message):
        load_workload(write(tmp_path, text))


LATIN = "# größer\n".encode("latin1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LATIN + GOOD.encode(), r"my.py is not UTF-8 text: byte 0xf6 at offset 4; convert it first, e.g. `iconv"),
        (GOOD.encode() + LATIN, rf"my.py is not UTF-8 text: byte 0xf6 at offset {len(GOOD.encode()) + 4}; convert"),
        (GOOD.encode("utf-16"), r"my.py is not UTF-8 text: byte 0xff at offset 0"),
        (GOOD.encode("utf-16-le"), r"my.py is not Python source: byte 0x00 at offset 1; is it a UTF-16 file"),
        (b"# coding: ascii\n" + LATIN + GOOD.encode(), r"my.py is not ascii text: byte 0xf6 at offset 20"),
        (b"# coding: klingon\n" + GOOD.encode(), r"declares an encoding that Python does not know: .*klingon"),
    ],
)
def test_files_that_are_no_text(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "my.py").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_workload(str(tmp_path / "my.py"))


def test_a_file_may_declare_its_encoding(tmp_path: Path):
    (tmp_path / "my.py").write_bytes(b"# coding: latin-1\n" + LATIN + GOOD.encode())
    assert load_workload(str(tmp_path / "my.py")).build(0, "cpu").steps == 7
    (tmp_path / "bom.py").write_bytes(GOOD.encode("utf-8-sig"))
    assert load_workload(str(tmp_path / "bom.py")).build(0, "cpu").steps == 7


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", r"returned NoneType, expected mixprec.Workload"),
        ("return {}['x']", r"workload\(seed=0, device='cpu'\) failed: .*my.py, line 2: KeyError: 'x'"),
        (
            "import torch; return torch.ones(2) @ torch.ones(3)",
            r"my.py, line 2: RuntimeError: inconsistent tensor size",
        ),
    ],
)
def test_functions_that_do_not_work(tmp_path: Path, body: str, message: str):
    source = load_workload(write(tmp_path, f"def workload(seed, device):\n    {body}\n"))
    with pytest.raises(WorkloadError, match=message):
        source.build(0, "cpu")


def test_data_that_a_workload_does_not_take():
    with pytest.raises(ValueError, match=r"workload 'resnet' takes no data, got 'a\.txt'"):
        load_workload("resnet", data="a.txt")


def test_no_steps():
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        load_workload("gpt", steps=0)
