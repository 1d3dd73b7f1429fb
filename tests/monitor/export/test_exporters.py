from __future__ import annotations

import io
import sys
import warnings

import pytest

from mixprec.monitor.export import Exporter, Exporters, JsonLinesExporter, PrometheusExporter, TensorBoardExporter
from mixprec.records import Record, read_records
from tests.monitor.export.made_records import event, finding, statistics, step, update


class Failing:
    """Takes two records, then fails."""

    def __init__(self, *, closes: bool = True) -> None:
        self.taken: list[Record] = []
        self.closed, self._closes = 0, closes

    def take(self, record: Record) -> None:
        if len(self.taken) == 2:
            raise OSError("No space left on device")
        self.taken.append(record)

    def close(self) -> None:
        self.closed += 1
        if not self._closes:
            raise RuntimeError("still no space")


def give(exporters: Exporters, steps: int) -> None:
    for number in range(steps):
        exporters.take(step(number))


def test_an_exporter_that_fails_is_told_once_and_the_others_go_on():
    failing, out = Failing(), io.StringIO()
    exporters = Exporters([failing, JsonLinesExporter(out)])
    with pytest.warns(
        RuntimeWarning, match=r"Failing failed .*OSError: No space left on device.*training goes on"
    ) as told:
        give(exporters, 5)
    assert len(told) == 1
    assert len(out.getvalue().splitlines()) == 5
    assert (len(failing.taken), failing.closed) == (2, 1)
    exporters.close()
    exporters.close()
    assert failing.closed == 1


def test_an_exporter_that_cannot_be_closed_either_says_so():
    exporters = Exporters([Failing(closes=False)])
    with pytest.warns(RuntimeWarning, match=r"nor could it be closed \(RuntimeError: still no space\)"):
        give(exporters, 3)
    assert exporters.active == ()


def test_what_is_no_exporter_is_refused_at_once():
    with pytest.raises(
        TypeError, match=r"got 'tensorboard' of type str: expected objects with take\(record\) and close"
    ):
        Exporters(["tensorboard"])


def test_a_file_of_json_lines_reads_back(tmp_path):
    records = [step(), statistics(), update(), finding(), event()]
    exporter = JsonLinesExporter(tmp_path / "copy.jsonl")
    assert isinstance(exporter, Exporter)
    for record in records:
        exporter.take(record)
    exporter.close()
    assert read_records(tmp_path / "copy.jsonl") == records


def test_a_folder_that_is_missing_is_told_before_training(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        JsonLinesExporter(tmp_path / "nowhere" / "copy.jsonl")


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: TensorBoardExporter("unused"), "tensorboard", "tensorboard"),
        (PrometheusExporter, "prometheus_client", "prometheus"),
    ],
)
def test_a_missing_package_is_told_with_what_to_install(monkeypatch, make, module: str, extra: str):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {module}, which is not installed: pip install "mixprec\[{extra}\]"'):
        make()


def test_none_is_needed_to_import_them():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Exporters().active == ()
