"""One local Spark session with the pinned jars, for the transforms. Nothing but Spark is started."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.java import java_home
from local.setup import targets
from sluice.model import stream
from spark_jobs.common.avro import Schemas


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sluice tests")
        .config("spark.driver.extraClassPath", f"{targets.jars('spark').path}/*")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # Py4J says that it closes its connections when the log's stream is closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def schemas() -> Schemas:
    return Schemas.load(stream.load("nyc_taxi").schema_file)


@pytest.fixture(scope="session")
def sample() -> Path:
    return Path(__file__).resolve().parents[2] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
