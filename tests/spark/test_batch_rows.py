"""What a consumer warms up is what its batches run."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import SparkSession

from sluice.config import streams
from spark_jobs.common.consumer.batch_rows import warm_up
from spark_jobs.common.consumer.run import decoding


@pytest.mark.parametrize("name", [spec.name for spec in streams.load_all()])
def test_every_streams_decoding_is_warmed_up(
    spark: SparkSession, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    decode = decoding(spark, streams.load(name))
    warm_up(spark, decode)
    assert caplog.messages == []
