"""The pod of a bounded Spark job, as the provider's operator runs it: against a real API server, with the
rights of a task and a stand-in for the kubelet."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException

from local.stack.stack import wait_until
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.clients.kubernetes.pods import STREAM_LABEL
from sluice.config.platform_sections.kubernetes import Kubernetes
from tests.k8s.kubelet import LogServer
from tests.k8s.world import NAMESPACE, World
from tests.support.raising import raising
from tests.support.steps import given

# Until the provider asks for a pod again.
SECONDS = 30


class Task:
    """One attempt of a task with a job, in a thread of ``pool``."""

    def __init__(self, pool: ThreadPoolExecutor, config: Kubernetes, number: int = 1) -> None:
        self.step = SparkJobOperator(task_id="apply_change", stream="nyc_taxi", job="change")
        self.step.__dict__["platform_hook"] = SimpleNamespace(platform=SimpleNamespace(kubernetes=config))
        self._number = number
        self.result: Future[None] = pool.submit(self.step.submit, self._context(), ["--request", "7"])

    def _context(self) -> Any:
        task = SimpleNamespace(
            dag_id="nyc_taxi_change",
            task_id="apply_change",
            run_id="manual__1",
            map_index=-1,
            try_number=self._number,
            xcom_push=lambda **_: None,
        )
        dag = SimpleNamespace(dag_id=task.dag_id, is_subdag=False, parent_dag=None)
        return given(ti=task, dag=dag, run_id=task.run_id, dag_run=SimpleNamespace(run_id=task.run_id))


def _pod(world: World, phase: str = "Running") -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        return [pod for pod in world.kubelet.pods() if pod["status"]["phase"] == phase]

    wait_until(f"a pod that is {phase}", lambda: bool(found()), SECONDS, 0.1)
    (pod,) = found()
    return pod


def _no_pods(world: World) -> None:
    wait_until("no pods", lambda: not world.kubelet.pods(), SECONDS, 0.1)


def test_a_job_runs_to_its_end_and_its_pod_is_deleted(world: World, node: LogServer) -> None:
    node.text = "2026-01-01T00:00:00Z working\n"
    with ThreadPoolExecutor(1) as pool:
        task = Task(pool, world.config())
        pod = _pod(world)
        assert pod["metadata"]["labels"][STREAM_LABEL] == "nyc_taxi"
        assert pod["spec"]["containers"][0]["args"][-2:] == ["--request", "7"]
        world.kubelet.end(pod, 0)
        task.result.result(SECONDS)
    _no_pods(world)
    assert any("follow=true" in path for path in node.asked)


def test_a_job_that_fails_says_the_reason_of_its_log(world: World, node: LogServer) -> None:
    with ThreadPoolExecutor(1) as pool:
        task = Task(pool, world.config())
        pod = _pod(world)
        world.kubelet.end(pod, 1, "INFO x\nLookupError: SLU-307 offset ranges: deleted\n")
        with raising(AirflowException, "SLU-307 the change of stream 'nyc_taxi' failed: offset ranges"):
            task.result.result(SECONDS)
    _no_pods(world)


def test_a_later_attempt_finds_the_pod_that_a_lost_one_has_left(world: World, node: LogServer) -> None:
    node.waits = 60.0
    with ThreadPoolExecutor(2) as pool:
        lost = Task(pool, world.config())
        first = _pod(world)
        later = Task(pool, world.config(), number=2)
        time.sleep(2)
        assert _pod(world)["metadata"]["name"] == first["metadata"]["name"]
        world.kubelet.end(first, 0)
        node.end.set()
        later.result.result(SECONDS)
        # It may have seen the same end, or only that the pod is gone.
        assert isinstance(lost.result.exception(SECONDS), AirflowException | None)


def test_a_kill_deletes_the_pod(world: World, node: LogServer) -> None:
    node.waits = 60.0
    with ThreadPoolExecutor(1) as pool:
        task = Task(pool, world.config())
        _pod(world)
        task.step.on_kill()
        _no_pods(world)
        node.end.set()
        with pytest.raises(AirflowException):
            task.result.result(SECONDS)


def test_without_the_rights_of_the_base_the_fix_is_said(world: World) -> None:
    world.core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "no-pods"}})
    with ThreadPoolExecutor(1) as pool:
        task = Task(pool, world.config("no-pods"))
        with raising(AirflowException, "SLU-252", "403", "no-pods", "apply k8s/base"):
            task.result.result(60)
    world.core.delete_namespaced_service_account("no-pods", NAMESPACE)
