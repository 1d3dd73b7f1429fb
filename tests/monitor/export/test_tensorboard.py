from __future__ import annotations

import math

import pytest

from mixprec.monitor.export import TensorBoardExporter
from mixprec.records import ComparisonRecord, RunEndRecord
from tests.monitor.export.made_records import event, finding, incident, statistics, step, update

pytest.importorskip("tensorboard", reason='TensorBoard is not installed: pip install "mixprec[tensorboard]"')


@pytest.fixture
def shown(tmp_path):
    """What TensorBoard itself reads of the files."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    exporter = TensorBoardExporter(tmp_path)
    header = ComparisonRecord(
        workload="gpt", recipes=("fp16",), baseline="fp16", seeds=(3,), steps=2, machine={}, versions={}, data={}
    )
    records = [header, step(0), step(1, loss=math.nan, applied=False, loss_scale=512.0), statistics(), update()]
    what_if = statistics(cast="e4m3[tensor]", in_use=False, flushed=0.5)
    for record in [
        *records,
        what_if,
        finding(),
        finding(),
        event(),
        incident(lost_steps=5),
        incident(lost_steps=7, outcome="recovered", resolved=60),
        incident(2, step=70),
        RunEndRecord(recipe="fp16", seed=3, status="done"),
    ]:
        exporter.take(record)
    exporter.close()
    accumulator = EventAccumulator(str(tmp_path / "fp16" / "seed3"), size_guidance={"tensors": 0})
    accumulator.Reload()
    return accumulator


def points(shown, tag: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in shown.Scalars(tag)]


def test_steps_are_curves(shown):
    assert points(shown, "loss_scale") == [(0, 1024.0), (1, 512.0)]
    assert points(shown, "skipped_steps") == [(0, 0.0), (1, 1.0)]
    assert points(shown, "gradient_norm") == [(0, 0.75), (1, 0.75)]
    first, second = points(shown, "loss")
    assert first == (0, 2.5)
    assert math.isnan(second[1])


def test_tensors_and_updates_are_curves_by_site_role_and_cast(shown):
    assert points(shown, "flushed/blocks.0.fc/input/fp16") == [(4, 0.125)]
    assert points(shown, "sqnr_db/blocks.0.fc/input/fp16") == [(4, 60.0)]
    assert points(shown, "flushed/blocks.0.fc/input/what-if_e4m3_tensor_") == [(4, 0.5)]
    assert points(shown, "update_ratio/blocks.0.fc.weight") == [(4, 0.0625)]
    assert points(shown, "findings/warning") == [(4, 1.0), (4, 2.0)]
    assert points(shown, "events/skipped") == [(4, 1.0)]


def test_exponents_are_a_histogram_with_a_bin_for_each_binade(shown):
    (found,) = shown.Histograms("exponents/blocks.0.fc/input")
    histogram = found.histogram_value
    assert histogram.num == 73
    bins = dict(zip(histogram.bucket_limit, histogram.bucket, strict=True))
    assert {limit: count for limit, count in bins.items() if count} == {-2.0: 10, 0.0: 50, 6.0: 13}
    assert histogram.sum / histogram.num == pytest.approx((10 * -2.5 + 50 * -0.5 + 13 * 5.5) / 73)
    assert (histogram.min, histogram.max) == (-3, 6)


def test_findings_are_texts(shown):
    texts = [tag for tag in shown.Tags()["tensors"] if tag.startswith("findings/loss_spike")]
    (tag,) = texts
    assert b"the loss is 9.1" in shown.Tensors(tag)[0].tensor_proto.string_val[0]


def test_each_recipe_and_seed_is_a_run_of_its_own(tmp_path):
    exporter = TensorBoardExporter(tmp_path)
    for recipe, seed in (("bf16", 0), ("bf16", 1), ("odd/name", 0)):
        exporter.take(step(recipe=recipe, seed=seed))
    exporter.close()
    folders = {str(file.parent.relative_to(tmp_path)) for file in tmp_path.rglob("events.*")}
    assert folders == {"bf16/seed0", "bf16/seed1", "odd_name/seed0"}


def test_incidents_are_counted_and_told_when_they_are_seen_and_when_they_are_settled(shown):
    assert points(shown, "incidents/rewind") == [(41, 1.0), (70, 2.0)]
    assert points(shown, "incident_lost_steps") == [(41, 5.0), (60, 7.0), (70, 7.0)]
    assert points(shown, "incidents_open") == [(41, 1.0), (60, 0.0), (70, 1.0)]
    (tag,) = [tag for tag in shown.Tags()["tensors"] if tag.startswith("incidents/")]
    texts = [(one.step, one.tensor_proto.string_val[0]) for one in shown.Tensors(tag)]
    assert [at for at, _ in texts] == [41, 60, 70]
    assert b"recovered at step 60; 7 steps lost" in texts[1][1]
