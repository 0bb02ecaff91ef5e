"""The SparkApplication of a bounded Spark job: what the provider makes of it, how it fails, what it ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import ApiException

from sluice.airflow.operators.jobs import spark_application
from sluice.airflow.operators.jobs.spark_application import JobApplication, job_application_operator
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob
from sluice.clients.kubernetes.spark_application import DRIVER_CONTAINER, PLURAL, job_application
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from tests.support import kubeconfig
from tests.support.raising import raising
from tests.support.steps import given
from tests.unit.airflow.operators.jobs.test_job_pod import TASK, _context

CONFIG = Kubernetes("sluice", "registry.test/jobs:1", "operator")
SPEC = streams.load("nyc_taxi")
JOB = PodJob(SPEC, "producer", ("--run", "r 1"), SPARK_JOB)


class Cluster:
    """Answers as an API server with the Spark operator would: ``state`` of each application that is made."""

    def __init__(self, state: str, message: str | None = None, drivers: tuple[str, ...] = ()) -> None:
        self.made: list[dict[str, Any]] = []
        self.deleted: list[str] = []
        self.state, self.message, self.drivers = state, message, drivers

    # CustomObjectsApi.
    def create_namespaced_custom_object(
        self, *, body: dict[str, Any], plural: str, **_: Any
    ) -> dict[str, Any]:
        assert plural == PLURAL
        self.made.append(body)
        return body

    def get_namespaced_custom_object_status(self, **_: Any) -> dict[str, Any]:
        failed = "driver container failed with ExitCode: 1, Reason: Error"
        return {"status": {"applicationState": {"state": self.state, "errorMessage": failed}}}

    def delete_namespaced_custom_object(self, *, name: str, **_: Any) -> None:
        self.deleted.append(name)

    # CoreV1Api.
    def list_namespaced_pod(self, namespace: str, label_selector: str, **_: Any) -> Any:
        self.selector = label_selector
        metadata = [SimpleNamespace(name=name, labels={}, namespace=namespace) for name in self.drivers]
        return SimpleNamespace(items=[SimpleNamespace(metadata=one) for one in metadata])

    def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        assert name == f"{self.made[-1]['metadata']['name']}-driver"
        if self.message is None:
            raise ApiException(status=404)
        terminated = SimpleNamespace(terminated=SimpleNamespace(message=self.message))
        status = SimpleNamespace(name=DRIVER_CONTAINER, state=terminated)
        return SimpleNamespace(status=SimpleNamespace(container_statuses=[status]))


def _operator(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, job: PodJob = JOB) -> JobApplication:
    operator = job_application_operator(TASK.task_id, job, CONFIG)
    operator.__dict__ |= {"client": cluster, "custom_obj_api": cluster}
    waited: list[str] = []
    monkeypatch.setattr(KubernetesPodOperator, "execute_sync", lambda step, context: waited.append(step.name))
    return operator


def test_the_resource_is_ours_with_the_labels_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("RUNNING")
    operator = _operator(cluster, monkeypatch)
    operator.execute_sync(_context())
    (made,) = cluster.made
    expected = job_application(JOB, CONFIG, made["metadata"]["name"])
    assert made["metadata"]["name"].startswith("nyc-taxi-producer-")
    assert made["metadata"]["namespace"] == "sluice"
    assert made["metadata"]["labels"] == JOB.labels
    assert made["spec"]["arguments"] == ["producer", "nyc_taxi", "--run", "r 1"]
    for role in ("driver", "executor"):
        assert made["spec"][role]["template"] == expected["spec"][role]["template"]
        labels = made["spec"][role]["labels"]
        assert (labels["dag_id"], labels["task_id"]) == ("nyc_taxi_load", "produce")
    assert made["spec"]["restartPolicy"] == {"type": "Never"}
    assert operator.delete_on_termination
    assert operator.kubernetes_conn_id is None
    assert operator.get_logs


def test_a_driver_that_a_lost_attempt_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("RUNNING", drivers=("nyc-taxi-producer-x1-driver",))
    operator = _operator(cluster, monkeypatch)
    operator.execute_sync(_context())
    assert not cluster.made
    assert operator.name == "nyc-taxi-producer-x1"
    assert "task_id=produce" in cluster.selector
    assert "spark-role=driver" in cluster.selector
    # The attempt's number does not matter.
    assert "try_number" not in cluster.selector


def test_a_name_with_driver_in_it_is_deleted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("RUNNING")
    operator = _operator(cluster, monkeypatch)
    operator.execute_sync(_context())
    operator.process_pod_deletion(SimpleNamespace(metadata=SimpleNamespace(name="a-driver-log-x1-driver")))
    assert cluster.deleted == ["a-driver-log-x1"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("ChangeRefused: SLU-420 nothing was changed", "SLU-420 nothing was changed"),
        # The pod was never made, or is gone.
        (None, "ExitCode: 1"),
        ("", "ExitCode: 1"),
    ],
)
def test_a_driver_that_fails_before_it_is_seen_to_run_says_why(
    monkeypatch: pytest.MonkeyPatch, message: str | None, said: str
) -> None:
    """The provider looks every ten seconds, and raises the operator's message, without the log's."""
    cluster = Cluster("FAILED", message)
    operator = _operator(cluster, monkeypatch)
    with raising(AirflowException, said):
        operator.execute_sync(_context())
    assert cluster.deleted == [cluster.made[0]["metadata"]["name"]]


def test_a_kill_deletes_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("RUNNING")
    operator = _operator(cluster, monkeypatch)
    operator.execute_sync(_context())
    operator.on_kill()
    assert cluster.deleted == [cluster.made[0]["metadata"]["name"]]


def test_its_pods_have_names_that_kubernetes_and_spark_take(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster("RUNNING")
    _operator(cluster, monkeypatch, replace(JOB, spec=replace(SPEC, name="a" * 60))).execute_sync(_context())
    assert len(f"{cluster.made[0]['metadata']['name']}-driver") <= 63


@pytest.mark.parametrize(("line", "is_final"), [("SLU-420 nothing was changed", True), ("SLU-201 x", False)])
def test_the_mode_of_the_platform_file_chooses_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, is_final: bool
) -> None:
    jobs: list[PodJob] = []

    def make(task_id: str, job: PodJob, config: Kubernetes) -> Any:
        jobs.append(job)

        def execute(context: object) -> None:
            raise AirflowException(f"Pod a-driver returned a failure.\nError: {line}")

        return SimpleNamespace(execute_sync=execute)

    monkeypatch.setattr(spark_application, "job_application_operator", make)
    monkeypatch.setattr(SparkJobOperator, "cluster", replace(CONFIG, kubeconfig=kubeconfig.write(tmp_path)))
    step = SparkJobOperator(task_id="apply_change", stream="nyc_taxi", job="change")
    with raising(AirflowException, f"{line[:7]} the change of stream 'nyc_taxi' failed") as caught:
        step.submit(given(), ["--request", "7"])
    assert isinstance(caught.value, AirflowFailException) is is_final
    assert [(job.job, job.options, job.label) for job in jobs] == [("change", ("--request", "7"), SPARK_JOB)]
