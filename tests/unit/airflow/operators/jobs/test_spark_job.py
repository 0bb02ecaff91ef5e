"""Failures of a Spark job as the provider raises them: code, reason, and whether it is tried again."""

from __future__ import annotations

from traceback import format_exception

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.airflow import connections
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from tests.support.raising import raising
from tests.support.steps import given


@pytest.mark.parametrize("kind", [AirflowException, RuntimeError])
@pytest.mark.parametrize(
    ("line", "code", "is_final"),
    [
        ("ChangeRefused: SLU-420 nothing was changed", "SLU-420", True),
        ("LookupError: SLU-307 offset ranges: deleted", "SLU-307", True),
        ("Driver driver-1 exited with status FAILED", "SLU-500", False),
        ("SLU-201 Kafka unreachable", "SLU-201", False),
    ],
)
def test_a_job_that_failed_has_a_code_and_its_rule_also_in_cluster_mode(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], line: str, code: str, is_final: bool
) -> None:
    """The provider raises AirflowException for a driver of its own, RuntimeError for one of the cluster."""

    def execute(step: SparkSubmitOperator, context: object) -> None:
        raise kind(f"Spark application app-1 failed\n{line}\n")

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    monkeypatch.setattr(connections, "get", lambda name: None)
    step = SparkJobOperator(task_id="apply_change", stream="nyc_taxi", job="change")
    with raising(AirflowException, f"{code} the change of stream 'nyc_taxi' failed") as caught:
        step.submit(given(), [])
    assert isinstance(caught.value, AirflowFailException) is is_final
    # Else the task's log has the provider's traceback, with the job's whole log, above the reason.
    assert "During handling" not in "".join(format_exception(caught.value))
    assert "app-1 failed" not in "".join(format_exception(caught.value))
