"""What casts do to the tensors of a file."""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from mixprec.records import AnalysisRecord
from mixprec.tensors import analyze_file, error

CASTS = ["mxfp8", "nvfp4 sr"]


def model() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    return {
        "blocks.0.weight": torch.randn(48, 64, generator=random),
        "blocks.0.bias": torch.randn(48, generator=random).to(torch.bfloat16),
        "blocks.1.weight": torch.randn(32, 48, generator=random).half(),
    }


def figures(record: AnalysisRecord, tensor: str) -> list[tuple[float, ...]]:
    return [
        (row.bits_per_element, row.mean_squared_error, row.snr_db, row.max_relative_error, row.flushed, row.saturated)
        for row in record.rows
        if row.tensor == tensor
    ]


def expected(x: Tensor, casts: list[str]) -> list[tuple[float, ...]]:
    return [
        (row.bits_per_element, row.mean_squared_error, row.snr_db, row.max_relative_error, row.flushed, row.saturated)
        for row in error(x, casts).rows
    ]


def save_safetensors(tensors: dict[str, Tensor], folder: Path) -> Path:
    save_file(tensors, folder / "model.safetensors")
    return folder / "model.safetensors"


def save_torch(tensors: dict[str, Tensor], folder: Path) -> Path:
    torch.save(tensors, folder / "model.pt")
    return folder / "model.pt"


def save_old_torch(tensors: dict[str, Tensor], folder: Path) -> Path:
    torch.save(tensors, folder / "model.pt", _use_new_zipfile_serialization=False)
    return folder / "model.pt"


def save_shards(tensors: dict[str, Tensor], folder: Path) -> Path:
    names = list(tensors)
    homes = {name: f"model-0000{1 + i % 2}-of-00002.safetensors" for i, name in enumerate(names)}
    for shard in set(homes.values()):
        save_file({name: tensors[name] for name in names if homes[name] == shard}, folder / shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": homes}))
    return folder / "model.safetensors.index.json"


def save_folder(tensors: dict[str, Tensor], folder: Path) -> Path:
    save_shards(tensors, folder)
    return folder


Save = Callable[[dict[str, Tensor], Path], Path]
SAVES: list[Save] = [save_safetensors, save_torch, save_old_torch, save_shards, save_folder]


@pytest.mark.parametrize("save", SAVES)
def test_figures_are_those_of_error_wherever_tensors_are_stored(tmp_path: Path, save: Save) -> None:
    tensors = model()
    record = analyze_file(save(tensors, tmp_path), CASTS)
    assert record.casts == ("mxfp8", "nvfp4 sr")
    assert {row.tensor for row in record.rows} == set(tensors)
    for name, x in tensors.items():
        assert figures(record, name) == expected(x, CASTS)
    assert {row.tensor: row.dtype for row in record.rows} == {
        "blocks.0.weight": "fp32",
        "blocks.0.bias": "bf16",
        "blocks.1.weight": "fp16",
    }
    assert record.skipped == ()


def test_totals_weigh_every_element_alike(tmp_path: Path) -> None:
    small = torch.randn(64, 64, generator=torch.Generator().manual_seed(0))
    large = 1e4 * torch.ones(2, 64)  # nearly all of the energy
    record = analyze_file(save_torch({"small": small, "large": large}, tmp_path), ["mxfp4"])
    (total,) = record.totals
    rows = {row.tensor: row for row in record.rows}
    noise = [10 ** (-rows[name].snr_db / 10) for name in ("small", "large")]
    weights = [small.numel(), large.numel()]
    mean = sum(w * n for w, n in zip(weights, noise, strict=True)) / sum(weights)
    assert total.snr_db == pytest.approx(-10 * math.log10(mean), rel=1e-12)
    assert total.flushed == pytest.approx(rows["small"].flushed * small.numel() / sum(weights), rel=1e-12)
    assert total.saturated == pytest.approx(
        sum(rows[n].saturated * w for n, w in zip(("small", "large"), weights, strict=True)) / sum(weights)
    )
    assert (total.tensors, total.elements) == (2, sum(weights))
    assert total.bits_per_element == 4.25
    lowest = min(record.rows, key=lambda row: row.snr_db)
    assert (total.lowest_snr_tensor, total.lowest_snr_db) == (lowest.tensor, lowest.snr_db)


def test_nested_dictionaries_and_lists_are_joined_by_dots(tmp_path: Path) -> None:
    torch.save(
        {"model": model(), "optimizer": {"state": {0: {"exp_avg": torch.ones(8)}}}, "ema": [torch.ones(4)]},
        tmp_path / "a.pt",
    )
    names = {row.tensor for row in analyze_file(tmp_path / "a.pt", ["bf16"]).rows}
    assert names == {"model.blocks.0.weight", "model.blocks.0.bias", "model.blocks.1.weight"} | {
        "optimizer.state.0.exp_avg",
        "ema.0",
    }
    torch.save(torch.ones(4), tmp_path / "b.pt")
    assert [row.tensor for row in analyze_file(tmp_path / "b.pt", ["bf16"]).rows] == ["tensor"]


def test_what_no_cast_is_tried_on_is_named_with_the_reason(tmp_path: Path) -> None:
    tensors = {
        "w": torch.ones(4, 8),
        "step": torch.tensor(3.0),
        "ids": torch.arange(4),
        "mask": torch.ones(4, dtype=torch.bool),
        "narrow": torch.ones(4).to(torch.float8_e4m3fn),
        "complex": torch.ones(4, dtype=torch.complex64),
        "empty": torch.ones(0, 8),
    }
    reasons = {
        "step": "a single number",
        "ids": "int64, not floating point",
        "mask": "bool, not floating point",
        "narrow": "float8_e4m3fn, a low-precision format already",
        "complex": "complex64, not floating point",
        "empty": "no elements",
    }
    for save in (save_safetensors, save_torch):
        record = analyze_file(save(tensors, tmp_path), ["mxfp8"])
        assert {tensor.tensor: tensor.reason for tensor in record.skipped} == reasons
        assert [row.tensor for row in record.rows] == ["w"]
    more = {"w": torch.ones(4), "sparse": torch.eye(3).to_sparse(), "meta": torch.empty(3, device="meta")}
    record = analyze_file(save_torch(more, tmp_path), ["mxfp8"])
    assert {tensor.tensor: tensor.reason for tensor in record.skipped} == {
        "sparse": "not a dense tensor",
        "meta": "without data (meta)",
    }


def test_tied_weights_are_tried_once(tmp_path: Path) -> None:
    w = torch.randn(8, 8)
    file = save_torch({"embed.weight": w, "head.weight": w, "turned": w.t(), "half": w[:4]}, tmp_path)
    record = analyze_file(file, ["mxfp8"])
    assert [row.tensor for row in record.rows] == ["embed.weight", "turned", "half"]
    assert [(t.tensor, t.reason) for t in record.skipped] == [("head.weight", "the same tensor as embed.weight")]
    assert [row.tensor for row in analyze_file(file, ["mxfp8"], match="head*").rows] == ["head.weight"]
    assert figures(record, "turned") == expected(w.t(), ["mxfp8"])


def test_fp64_is_rounded_to_fp32_first_and_noted(tmp_path: Path) -> None:
    x = torch.randn(4, 32, dtype=torch.float64)
    record = analyze_file(save_safetensors({"w": x}, tmp_path), ["mxfp8"])
    assert record.rows[0].dtype == "fp64"
    assert figures(record, "w") == expected(x.float(), ["mxfp8"])
    assert "fp64, rounded to fp32 first: w" in record.notes


@pytest.mark.parametrize(
    ("shape", "matrix"),
    [((6, 40), (6, 40)), ((5,), (1, 5)), ((4, 3, 40), (12, 40)), ((8, 3, 7, 7), (8, 147)), ((8, 6, 3), (8, 18))],
)
def test_blocks_lie_along_the_reduction_of_the_forward_product(
    tmp_path: Path, shape: tuple[int, ...], matrix: tuple[int, int]
) -> None:
    x = torch.randn(shape)
    record = analyze_file(save_torch({"w": x}, tmp_path), ["mxfp4"])
    assert (record.rows[0].shape, record.rows[0].reduction) == (shape, matrix[1])
    assert figures(record, "w") == expected(x.reshape(matrix), ["mxfp4"])
    is_convolution = math.prod(shape[:-1]) != matrix[0]
    assert any("convolution" in note for note in record.notes) == is_convolution


def test_globs_choose_tensors_and_a_cast_that_comes_twice_is_tried_once(tmp_path: Path) -> None:
    file = save_torch(model(), tmp_path)
    record = analyze_file(file, ["mxfp8", "e4m3[1x32:e8m0]"], match="blocks.*.weight", exclude="*.1.*")
    assert [(row.tensor, row.cast) for row in record.rows] == [("blocks.0.weight", "mxfp8")]


def test_progress_counts_elements(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    analyze_file(save_torch(model(), tmp_path), CASTS, on_progress=lambda done, total: told.append((done, total)))
    total = 2 * sum(x.numel() for x in model().values())
    assert len(told) == 6
    assert told[-1] == (total, total)
    assert sorted(told) == told


class RunsCode:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


def bad_files(folder: Path) -> dict[str, str]:
    """Each bad file's name, and what is said of it."""
    torch.save({"w": torch.ones(4)}, folder / "fine.pt")
    save_file({"w": torch.ones(2000)}, folder / "fine.safetensors")
    torch.save(torch.nn.Linear(2, 2), folder / "module.pt")
    torch.save({"w": torch.ones(4), "args": argparse.Namespace(a=1)}, folder / "arguments.pt")
    torch.save({"w": RunsCode()}, folder / "code.pt")
    torch.save({"a": 1}, folder / "none.pt")
    torch.save({"i": torch.arange(3)}, folder / "integers.pt")
    save_file({}, folder / "none.safetensors")
    (folder / "cut.pt").write_bytes((folder / "fine.pt").read_bytes()[:300])
    (folder / "cut.safetensors").write_bytes((folder / "fine.safetensors").read_bytes()[:3000])
    (folder / "short.pt").write_bytes(b"\x80\x02")
    (folder / "empty").write_bytes(b"")
    (folder / "text").write_text("some text")
    (folder / "pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00")
    spoilt = torch.ones(4, 8)
    spoilt[0, 0], spoilt[1] = math.nan, math.inf
    save_file({"fine": torch.ones(4), "w": spoilt}, folder / "nan.safetensors")
    save_file({"w": torch.full((4,), 1e300, dtype=torch.float64)}, folder / "large.safetensors")
    indices = {
        "lost.json": {"weight_map": {"w": "lost.safetensors"}},
        "other.json": {"weight_map": {"v": "fine.safetensors"}},
        "itself.json": {"weight_map": {"w": "itself.json"}},
        "config.json": {"hidden_size": 64},
        "numbers.json": {"weight_map": {"w": 3}},
    }
    for name, content in indices.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "damaged.json").write_text("{oops")
    (folder / "folder").mkdir()
    (folder / "two").mkdir()
    for name in ("a.pt", "b.pt"):
        (folder / "two" / name).touch()
    return {
        "module.pt": "names torch.nn.modules.linear.Linear, and loading that would run code.*weights_only=True",
        "arguments.pt": "names argparse.Namespace, and loading that would run code.*state_dict",
        "code.pt": "names posix.system, and loading that would run code",
        "none.pt": "holds no tensors",
        "none.safetensors": "holds no tensors",
        "integers.pt": "no tensor to try casts on: i: int64, not floating point",
        "cut.pt": "is damaged, or is no file of torch.save",
        "short.pt": "is damaged, or is no file of torch.save",
        "cut.safetensors": "is a damaged safetensors file: .*not fully covered",
        "empty": "is empty",
        "text": "is neither a safetensors file, nor one that torch.save wrote.*b'some text'",
        "pointer": "is a pointer of Git LFS.*git lfs pull",
        "nan.safetensors": "tensor w of .* has 1 NaN and 8 infinite elements of 32: .*--exclude 'w'",
        "large.safetensors": "tensor w of .* has 0 NaN and 4 infinite elements of 4 after its rounding to fp32",
        "lost.json": "names the file lost.safetensors, which is not beside it",
        "other.json": "says that fine.safetensors holds the tensor v, and it does not",
        "itself.json": "is neither a safetensors file, nor",
        "config.json": "is no index of shards: expected an object 'weight_map'",
        "numbers.json": "is no index of shards",
        "damaged.json": "is no JSON",
        "folder": "holds no file of weights: looked for",
        "two": r"holds 2 files \*.pt: give one of them \(a.pt, b.pt\)",
    }


def test_bad_files_are_told_by_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, message in bad_files(tmp_path).items():
        with pytest.raises(ValueError, match=message) as told:
            analyze_file(name, ["mxfp8"])
        assert name in str(told.value)
    assert not (tmp_path / "ran").exists()
    with pytest.raises(FileNotFoundError):
        analyze_file("missing.pt", ["mxfp8"])


def test_a_torchscript_program_is_told(tmp_path: Path) -> None:
    file = tmp_path / "program.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated; such files are about
        torch.jit.save(torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)), file)
    with pytest.raises(ValueError, match=r"program\.pt holds a TorchScript program.*state_dict"):
        analyze_file(file, ["mxfp8"])


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    file = save_torch(model(), tmp_path)
    for casts, options, message in (
        (["mxpf8"], {}, "unknown format 'mxpf8': .*did you mean 'mxfp8'"),
        ([], {}, "no cast to try"),
        (["mxfp8"], {"match": "blocks.0.wieght"}, "matches 'blocks.0.wieght': did you mean blocks.0.weight"),
        (["mxfp8"], {"match": "?"}, "the first of 3 is blocks.0.weight"),
        (["mxfp8"], {"exclude": "*"}, "leaves out every tensor"),
    ):
        with pytest.raises(ValueError, match=message):
            analyze_file(file, casts, **options)


def test_a_shard_may_hold_more_than_the_index_names(tmp_path: Path) -> None:
    save_file({"w": torch.ones(8), "v": torch.ones(8)}, tmp_path / "a.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "a.safetensors"}}))
    record = analyze_file(tmp_path, ["mxfp8"])
    assert [(t.tensor, t.reason) for t in record.skipped] == [("v", f"not named by {index.name}")]
