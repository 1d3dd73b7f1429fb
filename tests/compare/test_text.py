from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from mixprec.compare.workloads._text import read_characters


def test_numbers_characters_in_code_point_order(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("bäa€b😀", encoding="utf-8")
    text = read_characters(file, at_least=1)
    assert text.characters == "abä€😀"
    assert "".join(text.characters[i] for i in text.ids.tolist()) == "bäa€b😀"
    assert text.sha256 == hashlib.sha256("bäa€b😀".encode()).hexdigest()


def test_a_byte_order_mark_is_no_character(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes("ab".encode("utf-8-sig"))
    assert read_characters(file, at_least=1).characters == "ab"


def test_not_utf8_names_the_byte_and_the_remedy(tmp_path: Path):
    file = tmp_path / "latin.txt"
    file.write_bytes("größer".encode("latin1"))
    with pytest.raises(ValueError, match=r"latin.txt is not UTF-8 text: byte 0xf6 at offset 2; .*iconv"):
        read_characters(file, at_least=1)


def test_empty_and_short_files_are_told_apart(tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_text("")
    with pytest.raises(ValueError, match=r"a\.txt is empty: .* at least 100 characters"):
        read_characters(file, at_least=100)
    file.write_text("abc")
    with pytest.raises(ValueError, match=r"a\.txt has 3 characters"):
        read_characters(file, at_least=100)


def test_a_missing_file_is_an_os_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        read_characters(tmp_path / "none.txt", at_least=1)
