from __future__ import annotations

import math
from pathlib import Path

import pytest

from mixprec.compare.processes._read_rows import LogError, read_points


def points(tmp_path: Path, name: str, text: str, key: str = "loss") -> list[tuple[int, float]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return [(point.step, point.value) for point in read_points(tmp_path / name, key)]


def test_json_lines_have_their_own_steps_or_their_number(tmp_path: Path):
    assert points(tmp_path, "a.jsonl", '{"step": 10, "loss": 2}\n\n{"step": 20.0, "loss": "1.5"}\n') == [
        (10, 2.0),
        (20, 1.5),
    ]
    assert points(tmp_path, "b.log", '{"loss": 2}\n{"loss": 1}\n') == [(1, 2.0), (2, 1.0)]


def test_rows_without_the_metric_are_passed_over(tmp_path: Path):
    text = '{"step": 1, "train": 9}\n{"step": 2, "loss": null}\n{"step": 3, "loss": 4}\n'
    assert points(tmp_path, "a.jsonl", text) == [(3, 4.0)]


def test_numbers_that_are_not_finite_are_read(tmp_path: Path):
    found = points(tmp_path, "a.jsonl", '{"loss": NaN}\n{"loss": "nan"}\n{"loss": -Infinity}\n{"loss": "inf"}\n')
    assert [math.isnan(value) for _, value in found] == [True, True, False, False]
    assert [value for _, value in found[2:]] == [-math.inf, math.inf]


def test_nested_keys_and_keys_with_dots(tmp_path: Path):
    assert points(tmp_path, "a.jsonl", '{"eval": {"loss": 3}}\n{"eval.loss": 4}\n', "eval.loss") == [(1, 3.0), (2, 4.0)]


def test_csv_and_tsv(tmp_path: Path):
    assert points(tmp_path, "a.csv", '\ufeffstep, loss ,"a,b"\n5,2.5,"x,y"\n\n7,,z\n9,1e-3,w\n') == [
        (5, 2.5),
        (9, 1e-3),
    ]
    assert points(tmp_path, "a.TSV", "loss\tacc\n2\t0.5\n") == [(1, 2.0)]


def test_a_json_file_holds_one_object_or_a_list(tmp_path: Path):
    assert points(tmp_path, "a.json", '{\n  "loss": 3\n}\n') == [(1, 3.0)]
    assert points(tmp_path, "b.json", '[{"loss": 3}, {"loss": 2}]') == [(1, 3.0), (2, 2.0)]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", '{"loss": 1}\nepoch 2\n', "a.jsonl, line 2 cannot be read as JSON: 'epoch 2'"),
        ("a.jsonl", '{"loss": 1}\n{"loss": 0.', "a.jsonl, line 2 cannot be read as JSON"),
        ("a.jsonl", "[1, 2]\n", "a.jsonl, line 1 holds '[1, 2]', expected a JSON object"),
        ("a.jsonl", '{"loss": "low"}\n', "a.jsonl, line 1: loss is 'low', expected a number"),
        ("a.jsonl", '{"loss": true}\n', "loss is 'True', expected a number"),
        ("a.jsonl", '{"loss": [1]}\n', "loss is '[1]', expected a number"),
        ("a.jsonl", '{"step": -1, "loss": 1}\n', "step is -1, expected a whole number, 0 or more"),
        ("a.jsonl", '{"step": 1.5, "loss": 1}\n', "step is 1.5, expected a whole number"),
        ("a.jsonl", '{"step": NaN, "loss": 1}\n', "step is nan, expected a whole number"),
        ("a.jsonl", '{"step": 3, "acc": 1}\n', "metric loss is in no row of a.jsonl: it has step, acc"),
        ("a.jsonl", "", "metric loss is in no row of a.jsonl: it has no rows"),
        ("a.csv", "step,loss\n1,2,3\n", "a.csv, line 2 has 3 cells, its header 2"),
        ("a.csv", 'loss\n"1\n', "cannot be read as CSV"),
        ("a.json", "{", "a.json cannot be read as JSON"),
    ],
)
def test_what_cannot_be_read_is_told_in_words(tmp_path: Path, name: str, text: str, told: str):
    with pytest.raises(LogError) as caught:
        points(tmp_path, name, text)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_tells_what_is(tmp_path: Path):
    (tmp_path / "out.jsonl").touch()
    with pytest.raises(LogError, match=r"log\.jsonl does not exist.*; in its folder: out\.jsonl"):
        read_points(tmp_path / "log.jsonl", "loss")
    with pytest.raises(LogError, match=r"log\.jsonl does not exist: the command did not write it$"):
        read_points(tmp_path / "none" / "log.jsonl", "loss")


def test_bytes_that_are_no_text_and_a_folder(tmp_path: Path):
    (tmp_path / "a.csv").write_bytes(b"loss\n\xff\n")
    with pytest.raises(LogError, match="not UTF-8 text: byte 0xff"):
        read_points(tmp_path / "a.csv", "loss")
    with pytest.raises(LogError, match="cannot be read: Is a directory"):
        read_points(tmp_path, "loss")
