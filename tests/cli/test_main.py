from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mixprec.cli import main
from mixprec.formats import BLOCK_FORMATS, FORMATS
from mixprec.records import ComparisonRecord, write_records
from mixprec.specs import Recipe, describe_recipe, recipe, recipe_names


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that is a mistake, and give its one line."""
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("mixprec: ")
    assert shown.err.count("\n") == 1
    return shown.err


def shows(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


COMMANDS = ("compare", "check", "analyze", "init", "report", "recipes", "formats", "doctor")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(capsys: pytest.CaptureFixture[str], command: str):
    help = shows(capsys, command, "--help")
    assert f"Usage: mixprec {command}" in help
    assert "For example" in help
    assert help.count(f"mixprec {command}") >= 2


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]):
    for words in ((), ("--help",)):
        listed = shows(capsys, *words)
        assert all(command in listed for command in COMMANDS)


def test_version(capsys: pytest.CaptureFixture[str]):
    assert shows(capsys, "--version").startswith("mixprec ")


def test_a_format_as_a_table(capsys: pytest.CaptureFixture[str]):
    table = shows(capsys, "formats", "e4m3")
    rows = {line.split("│")[1].strip(): line.split("│")[2].strip() for line in table.splitlines() if "│" in line}
    assert rows["largest"] == "448"
    assert rows["smallest normal"] == "0.015625"
    assert rows["smallest subnormal"] == "0.001953125"
    assert rows["values per binade"] == "8"
    assert rows["NaN"] == "S.1111.111"


def rows_of(table: str) -> dict[str, str]:
    cells = [line.split("│") for line in table.splitlines() if line.startswith("│")]
    return {row[1].strip(): row[2].strip() for row in cells}


def test_a_table_of_values_is_told_by_its_values(capsys: pytest.CaptureFixture[str]):
    rows = rows_of(shows(capsys, "formats", "int4"))
    assert rows["bits"] == "4 (a table of 16 values)"
    assert rows["values"] == ", ".join(map(str, range(-8, 8)))
    assert not {"smallest normal", "smallest subnormal", "values per binade", "unit roundoff"} & set(rows)


def test_an_integer_has_no_normal_range(capsys: pytest.CaptureFixture[str]):
    for name in ("int8", "mxint8"):
        rows = rows_of(shows(capsys, "formats", name))
        assert rows["bits"] == "8 (two's complement, in steps of 0.015625)"
        assert not {"smallest normal", "smallest subnormal", "values per binade", "unit roundoff"} & set(rows)


@pytest.mark.parametrize(
    ("name", "bits", "nan"),
    [
        ("ue4m3", "7 (no sign, exponent 4, mantissa 3, bias 7)", "1111.111"),
        ("ue5m3", "8 (no sign, exponent 5, mantissa 3, bias 15)", "11111.111"),
        ("e8m0", "8 (no sign, no zero, exponent 8, bias 127)", "11111111"),
    ],
)
def test_formats_of_scales_have_no_sign(capsys: pytest.CaptureFixture[str], name: str, bits: str, nan: str):
    rows = rows_of(shows(capsys, "formats", name))
    assert (rows["bits"], rows["NaN"], rows["scale"]) == (bits, nan, "is one itself: no sign")


@pytest.mark.parametrize("name", ["fp32", "e5m6", "nvfp4", "mxint8", "e8m0", "nf4", "ue5m3"])
def test_every_kind_of_format_has_a_table(capsys: pytest.CaptureFixture[str], name: str):
    assert "largest" in shows(capsys, "formats", name)


def test_all_formats(capsys: pytest.CaptureFixture[str]):
    listed = shows(capsys, "formats")
    lines = {line.split("│")[1].strip(): line for line in listed.splitlines() if line.startswith("│")}
    assert set(lines) == {*FORMATS, *BLOCK_FORMATS}
    for name in ("int8", "int4", "nf4"):
        assert lines[name].count("–") == 2, "neither a smallest normal value nor a unit roundoff"


def test_recipes_are_listed_and_print_as_toml_that_reads_back(capsys: pytest.CaptureFixture[str]):
    listed = shows(capsys, "recipes")
    for name in recipe_names():
        assert f" {name} " in listed
        assert Recipe.from_toml(shows(capsys, "recipes", name)) == recipe(name)


def test_the_list_of_recipes_tells_where_they_come_from(capsys: pytest.CaptureFixture[str]):
    listed = shows(capsys, "recipes")
    for name in recipe_names():
        (line,) = [line for line in listed.splitlines() if line.startswith(f"│ {name} ")]
        assert describe_recipe(name).reference in line


def test_a_recipe_is_told_in_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    told = shows(capsys, "recipes", "nvfp4", "--about")
    assert max(map(len, told.splitlines())) <= 60
    for part in (
        "nvfp4: NVFP4: weights in 16x16 tiles",
        "bytes   0.56 (4.5 bits)",
        "source  NVIDIA",
        "found   12 billion",
    ):
        assert part in told
    every = shows(capsys, "recipes", "--about")
    assert told in every
    assert all(f"{name}: " in every for name in recipe_names())


def test_a_printed_recipe_is_a_file_to_start_from(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(shows(capsys, "recipes", "mxfp8"))
    assert shows(capsys, "recipes", str(file)) == file.read_text()


def test_doctor_tells_versions_kernels_and_what_is_native(capsys: pytest.CaptureFixture[str]):
    told = shows(capsys, "doctor")
    assert all(word in told for word in ("torch:", "python:", "kernels:", "native:"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("formats", "e44m3"), "unknown format 'e44m3': expected one of .*did you mean 'e4m3'"),
        (("formats", "e9m1"), "unknown format 'e9m1': .*any eXmY \\(X from 2 to 8, Y from 1 to 23\\)"),
        (("recipes", "mxpf8"), "unknown recipe 'mxpf8': expected one of .*did you mean 'mxfp8'"),
        (("recipes", "mxpf8", "--about"), "unknown recipe 'mxpf8': expected one of .*did you mean 'mxfp8'"),
        (("recipes", "a.toml", "--about"), "--about tells of named recipes, got the file 'a.toml'"),
        (("compare", "gtp"), "unknown workload 'gtp': expected one of .*did you mean 'gpt'"),
        (("compare", "gpt", "--recipes", "fp32,bf61"), "unknown recipe 'bf61': .*did you mean 'bf16'"),
        (("compare", "gpt", "--recipes", "none.toml"), "none.toml"),
        (("compare", "gpt", "--recipes", ","), "--recipes ',' has an empty name"),
        (("compare", "gpt", "--recipes", "fp32,,bf16"), "--recipes 'fp32,,bf16' has an empty name: expected names"),
        (("compare", "gpt", "--recipes", "fp32,"), "--recipes 'fp32,' has an empty name"),
        *(
            (("compare", "gpt", f"--{name}", ""), f"--{name} got an empty text: leave it out, or say what it is to be")
            for name in ("recipes", "baseline", "data", "device")
        ),
        (("compare", "gpt", "--recipes", "fp32,bf16,fp32"), "recipe fp32 is named more than once: name each once"),
        (("compare", "gpt", "--baseline", "fp8"), "unknown baseline 'fp8': expected one of fp32, bf16"),
        (("compare", "gpt", "--seeds", "0"), "--seeds must be at least 1, got 0"),
        (("compare", "gpt", "--steps", "0"), "steps must be at least 1, got 0"),
        (("compare", "gpt", "--threads", "0"), "--threads must be at least 1, got 0"),
        (("compare", "gpt", "--data", "none.txt"), "none.txt: No such file or directory"),
        (("compare", "resnet", "--data", "a.txt"), "workload 'resnet' takes no data"),
        (("compare", "none.py"), "none.py: No such file or directory"),
        (("compare", "gpt", "--resume", "none"), "none holds no records.jsonl"),
        (("compare", "gpt", "--device", "tpu9"), "device 'tpu9' cannot be used here"),
        (("compare",), "expected a workload .*, or --command and --metric"),
        (("compare", "gpt", "--seed", "2"), "Unknown option: --seed. Did you mean --seeds"),
        (("compare", "gpt", "--seeds", "two"), 'Invalid value for --seeds: unable to convert "two" into int'),
        (("comapre", "gpt"), 'Unknown command "comapre". Did you mean "compare"'),
        (("analyze", "none.pt"), "none.pt: No such file or directory"),
        (("analize", "none.pt"), 'Unknown command "analize". Did you mean "analyze"'),
        (("init", "job"), "ends in .py"),
        (("report", "none"), "none"),
    ],
)
def test_mistakes_are_one_line_that_teaches(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    message: str,
):
    import re

    monkeypatch.chdir(tmp_path)
    assert re.search(message, fails(capsys, *words))
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"too short", "has 9 characters"), ("größer".encode("latin1") * 500, "is not UTF-8 text")],
)
def test_texts_that_cannot_be_trained_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, message: str
):
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    assert message in fails(capsys, "compare", "gpt", "--data", str(text), "--out", str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_two_recipes_of_one_name_are_told_apart_by_their_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text(shows(capsys, "recipes", "mxfp8"))
    other.write_text(recipe("bf16", name="mxfp8").to_toml())
    for names in (f"fp32,mxfp8,{mine}", f"fp32,{mine},mxfp8", f"fp32,{other},{mine}"):
        told = fails(capsys, "compare", "gpt", "--recipes", names)
        assert "are both recipe 'mxfp8', and cannot be told apart" in told
        assert f'change `name = "..."` in {mine}' in told


def test_a_recipe_that_differs_from_what_a_folder_was_run_with(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    header = ComparisonRecord(
        workload="gpt", recipes=("fp32", "mine"), baseline="fp32", seeds=(0,), steps=9, machine={}, versions={}, data={}
    )
    folder, file = tmp_path / "run", tmp_path / "m3.toml"
    (folder / "recipes").mkdir(parents=True)
    write_records(folder / "records.jsonl", [header])
    for made in (recipe("fp32"), recipe("mxfp8", name="mine")):
        (folder / "recipes" / f"{made.name}.toml").write_text(made.to_toml())
    file.write_text(recipe("mxfp4", name="mine").to_toml())
    told = fails(capsys, "compare", "gpt", "--resume", str(folder), "--recipes", f"fp32,{file}")
    assert f"recipe 'mine' in {folder} differs from {file}" in told
    assert f'change `name = "..."` in {file}' in told
    assert "more than once" not in told

    (folder / "recipes" / "fp32.toml").write_text(recipe("bf16", name="fp32").to_toml())
    told = fails(capsys, "compare", "gpt", "--resume", str(folder), "--recipes", "fp32")
    assert "`mixprec recipes fp32 > mine.toml`, change" in told


def test_an_output_folder_that_is_a_file_or_holds_others(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "file").write_text("")
    told = fails(capsys, "compare", "gpt", "--steps", "1", "--out", str(tmp_path / "file"))
    assert "file is a file: expected a folder" in told
    told = fails(capsys, "compare", "gpt", "--steps", "1", "--out", str(tmp_path))
    assert "is not empty (it holds file): expected a new or empty folder" in told


def test_an_output_folder_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "file").write_text("")
    told = fails(capsys, "compare", "gpt", "--steps", "1", "--out", str(tmp_path / "file" / "run"))
    assert "Not a directory" in told
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_formats_and_help_need_no_torch():
    code = "import sys; from mixprec.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    for words in (["formats", "e4m3"], ["recipes"], ["compare", "--help"], ["analyze", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, check=False)
        assert done.returncode == 0, (words, done.stderr)


def test_unexpected_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch):
    import mixprec.formats

    def broken(name: str) -> object:
        raise RuntimeError("a bug")

    monkeypatch.setattr(mixprec.formats, "describe", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["formats", "e4m3"])
