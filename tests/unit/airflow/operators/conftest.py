"""Spark jobs of these tests run by spark-submit, unless a test says otherwise."""

from __future__ import annotations

import pytest

from sluice.airflow.operators.jobs.spark_job import SparkJobOperator


@pytest.fixture(autouse=True)
def by_spark_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkJobOperator, "cluster", None)
