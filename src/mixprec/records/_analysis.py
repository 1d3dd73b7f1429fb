"""What casts do to the tensors of a file: the record, and its JSON and CSV forms."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass, fields

from ._fields import to_json

#: Version of the JSON form. A field added, removed or changed in meaning raises it.
ANALYSIS_SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class AnalysisRow:
    """What one cast does to one tensor; the figures are those of `mixprec.error`.

    Attributes:
        tensor: its name.
        dtype: in which it is stored: ``fp64``, ``fp32``, ``bf16`` or ``fp16``.
        shape: as stored.
        reduction: length of the axis along which blocks and rows lie.
        cast: the cast's one-line form.
        bits_per_element: codes and scales, over the number of elements.
        mean_squared_error: of the values after the cast.
        snr_db: mean square of the tensor over the mean squared error, in decibel; inf if nothing changed.
        max_relative_error: largest ``|error| / |x|`` over elements that are not zero.
        flushed: share of the non-zero elements that became zero (under a transform: of transformed elements).
        saturated: share of the elements that lay more than half a step beyond the format's largest value under
            their scale.
    """

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    reduction: int
    cast: str
    bits_per_element: float
    mean_squared_error: float
    snr_db: float
    max_relative_error: float
    flushed: float
    saturated: float


@dataclass(frozen=True, kw_only=True)
class AnalysisTotal:
    """What one cast does to all tensors together; every element has the same weight.

    Attributes:
        cast: the cast's one-line form.
        tensors: how many.
        elements: of all of them.
        bits_per_element: codes and scales of all, over the number of elements.
        mean_squared_error: over all elements.
        snr_db: from the tensors' ratios of noise to signal, averaged with their numbers of elements as weights, so that
            a tensor of large values (a norm's weights, say) counts no more than one of small ones.
        max_relative_error: the largest of the rows.
        flushed: share of all elements that are not zero.
        saturated: share of all elements.
        lowest_snr_db: the lowest of the rows.
        lowest_snr_tensor: the tensor that has it.
    """

    cast: str
    tensors: int
    elements: int
    bits_per_element: float
    mean_squared_error: float
    snr_db: float
    max_relative_error: float
    flushed: float
    saturated: float
    lowest_snr_db: float
    lowest_snr_tensor: str


@dataclass(frozen=True, kw_only=True)
class SkippedTensor:
    """A tensor that no cast was tried on, and why."""

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    reason: str


@dataclass(frozen=True, kw_only=True)
class AnalysisRecord:
    """What casts do to the tensors of a file.

    Attributes:
        source: the file, as it was named.
        casts: their one-line forms, in the order in which they were asked for.
        rows: for each tensor, as the file lists them, one for each cast.
        totals: one for each cast.
        skipped: tensors that no cast was tried on.
        notes: what must be read with the figures.
    """

    source: str
    casts: tuple[str, ...]
    rows: tuple[AnalysisRow, ...]
    totals: tuple[AnalysisTotal, ...]
    skipped: tuple[SkippedTensor, ...]
    notes: tuple[str, ...]


def analysis_json(record: AnalysisRecord) -> str:
    """An analysis as a JSON object, with its schema version; infinity is ``"inf"``.

    Example:
        >>> empty = AnalysisRecord(source="a.pt", casts=(), rows=(), totals=(), skipped=(), notes=())
        >>> print(analysis_json(empty).splitlines()[1].strip(), analysis_json(empty).splitlines()[3].strip())
        "schema": 1, "source": "a.pt",
    """
    body = {"schema": ANALYSIS_SCHEMA_VERSION, "type": "analysis"} | _object(record)
    return json.dumps(body, indent=2, allow_nan=False) + "\n"


def analysis_csv(record: AnalysisRecord) -> str:
    """The rows of an analysis as CSV under a line of names; a shape is written as ``768x2304``.

    Example:
        >>> empty = AnalysisRecord(source="a.pt", casts=(), rows=(), totals=(), skipped=(), notes=())
        >>> analysis_csv(empty)[:27]
        'tensor,dtype,shape,reductio'
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(AnalysisRow)], lineterminator="\n")
    writer.writeheader()
    for row in record.rows:
        values = {field.name: getattr(row, field.name) for field in fields(row)}
        writer.writerow(values | {"shape": "x".join(map(str, row.shape))})
    return text.getvalue()


def _object(record: AnalysisRecord | AnalysisRow | AnalysisTotal | SkippedTensor) -> dict[str, object]:
    body: dict[str, object] = {}
    for field in fields(record):
        value: object = getattr(record, field.name)
        nested = field.name in ("rows", "totals", "skipped")
        body[field.name] = [_object(item) for item in getattr(record, field.name)] if nested else to_json(value)
    return body
