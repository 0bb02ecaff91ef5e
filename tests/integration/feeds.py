"""What the scenarios of the streams with long-running components have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from local.drills.stream import StreamUnderTest
from tests.integration import streams
from tests.support import airflow_calls


@contextmanager
def running(site: StreamUnderTest, dags: Sequence[str]) -> Iterator[None]:
    """The DAGs unpaused; afterwards paused, and no component running: the ends of their logs are printed."""
    for dag in dags:
        site.airflow.wait_for_dag(dag)
        site.airflow.unpause(dag)
    try:
        yield
    finally:
        for component in site.spec.components.values():
            log = site.stack.home.logs / f"{component.program}.log"
            if log.exists():
                print(f"{component.name}:\n{log.read_text(errors='replace')[-3000:]}")
            if site.process(component.program)["statename"] in streams.GOING:
                site.stack.supervisor().stopProcess(component.program)
        for dag in dags:
            airflow_calls.pause(site.airflow, dag)


def assert_success(site: StreamUnderTest, dag: str, run_id: str, state: str) -> None:
    """The run ended well; prints what failed."""
    tasks = {task["task_id"]: task for task in site.airflow.tasks(dag, run_id)}
    for name, task in tasks.items():
        if task["state"] == "failed":
            log = site.airflow.log(dag, run_id, name, int(task["try_number"]))
            print(f"{run_id} {name} failed:\n" + "\n".join(log)[-4000:])
    assert state == "success", {name: task["state"] for name, task in tasks.items()}
