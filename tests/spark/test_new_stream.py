"""The code that `sluice new-stream` writes runs as it is: generated records and events become rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.cli import new_stream
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.sections.generator import Generated
from spark_jobs.common.spark.functions import function

ROWS = 50
FORM = {
    "rows": ROWS,
    "start_time": "2026-01-01T00:00:00+00:00",
    "duration_hours": 1,
    "rows_per_second": 0,
    "seed": 7,
    "max_amount": 9,
}


@pytest.mark.parametrize("kind", ["generator", "feed"])
def test_a_new_stream_decodes(
    kind: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    name = f"new_{kind}"
    new_stream.main(name, kind, new_stream.root_of(None, None))
    spec = streams.load(name)
    if spec.generator:
        rows = spark.range(ROWS).withColumnRenamed("id", "row")
        records = function(spec, spec.generator.rows)(rows, Generated(FORM))
    else:
        assert spec.feed is not None
        event = function(spec, spec.feed.event)('{"event_id": "e1", "title": "a"}', "1")
        assert (event.event_id, event.malformed) == ("e1", None)
        assert function(spec, spec.feed.event)("[1]", "1").malformed
        values = [(f'{{"event_id": "e{n}", "title": "a"}}'.encode(),) for n in range(ROWS)]
        records = spark.createDataFrame(values, "value binary")
    text = spec.schema_file.read_text()
    columns = ", ".join(line.partition("--")[0].strip() for line in text.splitlines() if line[0] != "-")
    schema = spark.createDataFrame([], columns).schema
    bad = spark.createDataFrame([(b"{",), (None,)], "value binary")
    decoded = function(spec, spec.decode)(records.select("value").union(bad), schema)
    good = decoded.where(F.col("reason").isNull()).select("record.*")
    assert good.count() == good.select(good.columns[0]).distinct().count() == ROWS
    assert decoded.where(F.col("reason").isNotNull()).count() == 2
