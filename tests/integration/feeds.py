"""What the scenarios of the streams with long-running components have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.support import airflow_calls
from tests.support.stream import StreamUnderTest


@contextmanager
def running(stream: StreamUnderTest, dags: Sequence[str]) -> Iterator[None]:
    """The DAGs unpaused; afterwards paused, and no component running: the ends of their logs are printed."""
    for dag in dags:
        stream.airflow.wait_for_dag(dag)
        stream.airflow.unpause(dag)
    try:
        yield
    finally:
        for component in stream.spec.components.values():
            log = stream.stack.home.logs / f"{component.program}.log"
            if log.exists():
                print(f"{component.name}:\n{log.read_text(errors='replace')[-3000:]}")
            stream.end(component.program)
        for dag in dags:
            airflow_calls.pause(stream.airflow, dag)


def assert_success(stream: StreamUnderTest, dag: str, run_id: str, state: str) -> None:
    """The run ended well; prints what failed."""
    tasks = {task["task_id"]: task for task in stream.airflow.tasks(dag, run_id)}
    airflow_calls.print_failed(stream.airflow, dag, run_id)
    assert state == "success", {name: task["state"] for name, task in tasks.items()}
