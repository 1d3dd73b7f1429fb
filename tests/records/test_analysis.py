"""An analysis as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, replace

from mixprec.records import (
    ANALYSIS_SCHEMA_VERSION,
    AnalysisRecord,
    AnalysisRow,
    AnalysisTotal,
    SkippedTensor,
    analysis_csv,
    analysis_json,
)

ROW = AnalysisRow(
    tensor='a "quoted", name',
    dtype="fp32",
    shape=(4, 3, 5),
    reduction=5,
    cast="e4m3[1x32:e8m0] sr",
    bits_per_element=8.25,
    mean_squared_error=1 / 3,
    snr_db=math.inf,
    max_relative_error=1e-300,
    flushed=0.1,
    saturated=0.0,
)
TOTAL = AnalysisTotal(
    cast=ROW.cast,
    tensors=1,
    elements=60,
    bits_per_element=8.25,
    mean_squared_error=1 / 3,
    snr_db=math.inf,
    max_relative_error=1e-300,
    flushed=0.1,
    saturated=0.0,
    lowest_snr_db=-math.inf,
    lowest_snr_tensor=ROW.tensor,
)
RECORD = AnalysisRecord(
    source="model.pt",
    casts=(ROW.cast,),
    rows=(ROW, replace(ROW, tensor="b", snr_db=30.5)),
    totals=(TOTAL,),
    skipped=(SkippedTensor(tensor="step", dtype="int64", shape=(), reason="int64, not floating point"),),
    notes=("a note",),
)


def test_json_holds_every_field_and_its_schema_version():
    read = json.loads(analysis_json(RECORD), parse_constant=lambda word: 1 / 0)
    assert (read.pop("schema"), read.pop("type")) == (ANALYSIS_SCHEMA_VERSION, "analysis")
    expected = json.loads(json.dumps(asdict(RECORD)).replace("-Infinity", '"-inf"').replace("Infinity", '"inf"'))
    assert read == expected
    assert read["rows"][1]["snr_db"] == 30.5
    assert read["rows"][0]["snr_db"] == "inf"


def test_csv_has_a_line_for_each_row_that_reads_back_exactly():
    header, first, second = csv.reader(io.StringIO(analysis_csv(RECORD)))
    assert header == list(asdict(ROW))
    assert first[:5] == ['a "quoted", name', "fp32", "4x3x5", "5", "e4m3[1x32:e8m0] sr"]
    assert [float(cell) for cell in first[5:]] == [8.25, 1 / 3, math.inf, 1e-300, 0.1, 0.0]
    assert (second[0], float(second[7])) == ("b", 30.5)
