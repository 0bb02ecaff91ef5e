"""The pod of a bounded Spark job: what the provider makes of it, how it fails, and how a kill ends it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import ApiException
from urllib3 import HTTPConnectionPool
from urllib3.exceptions import ReadTimeoutError

from sluice.airflow.operators.jobs.job_pod import job_pod
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob, pod_spec
from sluice.config import streams
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.sections.cluster import Cluster
from tests.support import kubeconfig
from tests.support.raising import raising
from tests.support.steps import given

CONFIG = Kubernetes("sluice", "registry.test/jobs:1", overrides="mine")
SPEC = replace(streams.load("nyc_taxi"), cluster=Cluster(executors=2))
JOB = PodJob(SPEC, "producer", ("--run", "r 1"), SPARK_JOB)
TASK = SimpleNamespace(
    dag_id="nyc_taxi_load", task_id="produce", run_id="manual__1", map_index=-1, try_number=2
)


def _context() -> Any:
    dag = SimpleNamespace(dag_id=TASK.dag_id, is_subdag=False, parent_dag=None)
    return given(ti=TASK, dag=dag, run_id=TASK.run_id, dag_run=SimpleNamespace(run_id=TASK.run_id))


def test_the_final_pod_is_ours_with_the_labels_of_its_task() -> None:
    operator = job_pod("produce", JOB, CONFIG)
    made = operator.build_pod_request_obj(_context(), dry_run=True)
    pod: dict[str, Any] = _as_json(made)
    expected = pod_spec(JOB, CONFIG)
    (container,) = pod["spec"].pop("containers")
    (expected_container,) = expected.pop("containers")
    # What the provider adds is empty.
    assert _without_empty(pod["spec"], expected) == expected
    assert _without_empty(container, expected_container) == expected_container
    assert pod["spec"]["serviceAccountName"] == "sluice-spark"
    assert pod["spec"]["automountServiceAccountToken"] is True
    assert container["args"][-2:] == ["--run", "r 1"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    metadata = pod["metadata"]
    assert metadata["namespace"] == "sluice"
    assert metadata["name"].startswith("nyc-taxi-producer-")
    assert len(metadata["name"]) <= 63
    labels = metadata["labels"]
    assert JOB.labels.items() <= labels.items()
    assert labels["sluice.io/component"] == "producer"
    assert (labels["dag_id"], labels["task_id"], labels["try_number"]) == ("nyc_taxi_load", "produce", "2")
    # Another attempt's pod is found if it still runs.
    assert operator.durable
    assert operator.on_finish_action.value == "delete_pod"


def _without_empty(made: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in made.items() if value or key in expected}


def _as_json(pod: Any) -> Any:
    from kubernetes.client import ApiClient

    return ApiClient().sanitize_for_serialization(pod)


def test_a_pod_and_its_executors_have_names_that_spark_takes() -> None:
    longest = replace(SPEC, name="a" * 60)
    made = job_pod("t", replace(JOB, spec=longest), CONFIG).build_pod_request_obj(_context(), dry_run=True)
    # Spark's limit for the prefix of its executors' names.
    assert len(made.metadata.name) <= 47


def refused(said: str) -> ApiException:
    """As admission answers: with the status of a missing right."""
    error = ApiException(status=403, reason="Forbidden")
    error.body = json.dumps({"message": f'pods "x" is forbidden: {said}'})
    return error


class Run:
    """A task on a cluster whose pod fails as the provider says it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, failure: Exception | None) -> None:
        self.pods: list[KubernetesPodOperator] = []

        def execute(operator: KubernetesPodOperator, context: object) -> None:
            self.pods.append(operator)
            if failure is not None:
                raise failure

        monkeypatch.setattr(KubernetesPodOperator, "execute_sync", execute)
        monkeypatch.setattr(SparkJobOperator, "cluster", replace(CONFIG, kubeconfig=kubeconfig.write(folder)))
        self.step = SparkJobOperator(
            task_id="apply_change", stream="nyc_taxi", job="change", conf={"spark.a": "b"}
        )


@pytest.mark.parametrize(
    ("message", "code", "is_final"),
    [
        ("INFO x\nChangeRefused: SLU-420 nothing was changed\nINFO end", "SLU-420", True),
        ("LookupError: SLU-307 offset ranges: deleted", "SLU-307", True),
        ("SLU-201 Kafka unreachable", "SLU-201", False),
        # Killed: it has no log.
        ("", "SLU-500", False),
    ],
)
def test_a_pod_that_failed_has_the_code_of_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: str, code: str, is_final: bool
) -> None:
    run = Run(
        monkeypatch, tmp_path, AirflowException(f"Pod nyc-taxi-change-1 returned a failure.\n{message}")
    )
    with raising(AirflowException, f"{code} the change of stream 'nyc_taxi' failed") as caught:
        run.step.submit(given(), [])
    assert isinstance(caught.value, AirflowFailException) is is_final


@pytest.mark.parametrize(
    ("failure", "code", "said"),
    [
        (ApiException(status=403, reason="Forbidden"), "SLU-252", "apply k8s/base"),
        (refused("exceeded quota: compute"), "SLU-252", "raise the namespace's ResourceQuota"),
        (refused('violates PodSecurity "restricted:latest"'), "SLU-252", "report it"),
        (ApiException(status=404, reason="Not Found"), "SLU-252", "makes another"),
        (ApiException(status=503, reason="Unavailable"), "SLU-251", "503"),
        (ReadTimeoutError(HTTPConnectionPool("h"), "/", "timed out"), "SLU-251", "does not answer"),
    ],
)
def test_what_kubernetes_says_has_a_code_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception, code: str, said: str
) -> None:
    run = Run(monkeypatch, tmp_path, failure)
    expected = f"{code} the change of stream 'nyc_taxi' failed: sluice/"
    with raising(AirflowException, expected, said) as caught:
        run.step.submit(given(), [])
    assert not isinstance(caught.value, AirflowFailException)


def test_a_task_on_a_cluster_needs_no_connection_and_gives_its_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Run(monkeypatch, tmp_path, None)
    run.step.submit(given(), ["--request", "7"])
    (pod,) = run.pods
    made: Any = pod.full_pod_spec
    (container,) = made.spec.containers
    assert container.args == ["python", "-m", "spark_jobs", "change", "nyc_taxi", "--request", "7"]
    (arguments,) = [one.value for one in container.env if one.name == "PYSPARK_SUBMIT_ARGS"]
    assert "--conf spark.a=b" in arguments


def test_a_kill_deletes_the_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = Run(monkeypatch, tmp_path, None)
    run.step.on_kill()
    run.step.submit(given(), [])
    (pod,) = run.pods
    pod.pod = SimpleNamespace(metadata=SimpleNamespace(name="nyc-taxi-change-1", namespace="sluice"))
    deleted: list[dict[str, Any]] = []
    pod.__dict__["client"] = SimpleNamespace(delete_namespaced_pod=lambda **given: deleted.append(given))
    run.step.on_kill()
    assert deleted == [{"name": "nyc-taxi-change-1", "namespace": "sluice"}]


def test_a_job_that_was_ended_with_its_task_is_no_success(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The provider returns as after a success once it has deleted the pod itself."""
    run = Run(monkeypatch, tmp_path, None)

    def killed(operator: KubernetesPodOperator, context: object) -> None:
        run.step.on_kill()

    monkeypatch.setattr(KubernetesPodOperator, "execute_sync", killed)
    with raising(AirflowException, "SLU-500", "was ended with this task", "the next attempt"):
        run.step.submit(given(), [])


def test_a_pod_without_a_node_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failure = AirflowException("Pod took too long to be scheduled on the cluster, giving up.")
    with raising(AirflowException, "took too long to be scheduled", "add nodes, or lower [cluster]"):
        Run(monkeypatch, tmp_path, failure).step.submit(given(), [])


def test_the_login_is_the_platform_files(tmp_path: Path) -> None:
    path = kubeconfig.write(tmp_path)
    own = job_pod("t", JOB, replace(CONFIG, kubeconfig=path))
    assert (own.config_file, own.in_cluster) == (path, False)
    of_pod = job_pod("t", JOB, CONFIG)
    assert (of_pod.config_file, of_pod.in_cluster) == (None, True)
