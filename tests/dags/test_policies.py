"""Policies over the whole DAG bag: what every DAG has, so that whoever is on call finds it there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import runpy
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from sluice.model import stream
from sluice.model.orders import Action, Step
from tests.dags.conftest import DAGS, REPO, files

PARSE_SECONDS = 2.0

SINKS = "provision_sinks"


def complaints(bag: Any, check: Any) -> list[str]:
    """The ids of what does not pass."""
    return [dag_id for dag_id, dag in sorted(bag.dags.items()) if not check(dag)]


def spark(task: Any) -> bool:
    """Whether it submits a job to Spark."""
    return hasattr(task, "durable")


def tasks(bag: Any, check: Any) -> list[str]:
    return [
        f"{dag_id}.{task.task_id}"
        for dag_id, dag in sorted(bag.dags.items())
        for task in dag.tasks
        if not check(task)
    ]


def test_every_file_declares_a_dag(bag: Any) -> None:
    declared = {Path(dag.fileloc).resolve() for dag in bag.dags.values()}
    assert declared == set(files())
    assert "nyc_taxi_load" in bag.dags


def test_every_dag_is_documented(bag: Any) -> None:
    assert not complaints(bag, lambda dag: (dag.doc_md or "").strip().startswith("### "))


def test_the_documentation_names_every_task(bag: Any) -> None:
    assert not tasks(bag, lambda task: f"`{task.task_id}`" in (task.dag.doc_md or ""))


def test_dags_are_described_tagged_and_bounded(bag: Any) -> None:
    assert not complaints(bag, lambda dag: dag.description)
    assert not complaints(bag, lambda dag: "sluice" in dag.tags and len(dag.tags) > 1)
    assert not complaints(bag, lambda dag: dag.catchup is False)
    assert not complaints(bag, lambda dag: isinstance(dag.dagrun_timeout, timedelta))


def test_loads_may_overlap(bag: Any) -> None:
    loads = [dag for dag_id, dag in bag.dags.items() if dag_id.endswith("_load")]
    assert loads
    assert all(dag.max_active_runs > 1 for dag in loads)
    producers = [dag.get_task("produce") for dag in loads]
    assert all(task.max_active_tis_per_dag == 1 for task in producers)
    # A reconnect would take the job of before a clear for the answer; the ledger is to say that.
    assert all(task.durable is False for dag in bag.dags.values() for task in dag.tasks if spark(task))


def test_tasks_have_an_owner_retries_and_a_timeout(bag: Any) -> None:
    assert not tasks(bag, lambda task: task.owner not in ("", "airflow"))
    assert not tasks(
        bag,
        # Of supervision the next run is the retry: a step that is tried again would only hide what it saw.
        lambda task: (
            task.retries == 0
            if task.dag.dag_id.endswith("_stream")
            else task.retries >= 1 and task.retry_delay >= timedelta(seconds=5)
        ),
    )
    assert not tasks(bag, lambda task: isinstance(task.execution_timeout, timedelta))
    longest = {dag_id: max(task.execution_timeout for task in dag.tasks) for dag_id, dag in bag.dags.items()}
    assert not complaints(bag, lambda dag: longest[dag.dag_id] < dag.dagrun_timeout)


def streams(bag: Any) -> list[Any]:
    found = [dag for dag_id, dag in bag.dags.items() if dag_id.endswith("_stream")]
    assert {dag.dag_id for dag in found} == {f"{name}_stream" for name in stream.names()}
    return found


def test_each_stream_is_supervised_as_often_as_it_says(bag: Any) -> None:
    for dag in streams(bag):
        policy = stream.load(dag.dag_id.removesuffix("_stream")).supervision
        assert dag.schedule == timedelta(seconds=policy.interval_seconds)
        # One after the other: two at once would see each other's restarts as their own.
        assert (dag.max_active_runs, dag.catchup) == (1, False)
        assert "stream" in dag.tags
        assert len(dag.tasks) <= 8 + len(own(dag))


def parts(dag: Any) -> list[str]:
    """What a stream has beside its consumer."""
    return [name for name in stream.load(dag.dag_id.removesuffix("_stream")).parts if name != "consumer"]


def own(dag: Any) -> set[str]:
    """The steps beside the consumer's lane."""
    return {f"tend_{part}" for part in parts(dag)} | ({SINKS} if "queries" in parts(dag) else set())


def test_every_other_part_is_tended_beside_the_consumers_lane(bag: Any) -> None:
    seen = 0
    for dag in streams(bag):
        tending = [task for task in dag.tasks if type(task).__name__ == "TendOperator"]
        assert sorted((task.task_id, task.part) for task in tending) == sorted(
            (f"tend_{part}", part) for part in parts(dag)
        )
        for task in tending:
            # The queries are tended whatever their sinks' verdict is.
            before = {SINKS} if task.part == "queries" else set()
            assert task.upstream_task_ids | task.downstream_task_ids == before
            assert task.trigger_rule == ("all_done" if before else "all_success")
            # Two looks, a stop and a start, and the wait for a heartbeat.
            policy = stream.load(task.stream).supervision
            least = task.look_seconds * 2 + policy.stop_seconds + 30 + task.recovery_seconds
            assert timedelta(seconds=least) < task.execution_timeout
        seen += len(tending)
    assert seen


def lane(dag: Any) -> dict[str, Any]:
    """The consumer's lane: each task's kind, neighbours and values, with the stream's name taken out."""
    name = dag.dag_id.removesuffix("_stream")
    return {
        task.task_id: {
            "kind": type(task),
            "upstream": task.upstream_task_ids,
            "downstream": task.downstream_task_ids,
            **{
                key: json.dumps(value, default=repr).replace(name, "STREAM")
                for key, value in vars(task).items()
                if isinstance(value, str | int | float | list | timedelta) or value is None
            },
        }
        for task in dag.tasks
        if task.task_id not in own(dag)
    }


def test_the_consumers_lane_is_the_same_in_every_stream(bag: Any) -> None:
    first, *others = streams(bag)
    assert len(lane(first)) == 8
    for dag in others:
        assert lane(dag) == lane(first)
        same = ("schedule", "max_active_runs", "dagrun_timeout", "catchup")
        assert [getattr(dag, name) for name in same] == [getattr(first, name) for name in same]


def test_a_load_of_a_stream_with_queries_makes_their_sinks_and_checks_them(bag: Any) -> None:
    seen = 0
    for name in stream.names():
        steps = {task.task_id: task.downstream_task_ids for task in bag.dags[f"{name}_load"].tasks}
        if stream.load(name).queries:
            seen += 1
            assert steps["provision_topic"] == {SINKS}
            assert steps["ensure_stream"] == {"ensure_queries"}
            assert (steps["validate"], steps["counted"]) == ({"counted"}, {"check_sinks"})
        else:
            assert SINKS not in steps
    assert seen


def test_what_is_well_costs_one_process(bag: Any) -> None:
    for dag in streams(bag):
        observe, quiet = dag.get_task("observe"), dag.get_task("quiet")
        assert observe.start_from_trigger
        assert quiet.inherits_from_empty_operator
        assert observe.downstream_task_ids == {step.value for step in Step}
        assert not quiet.downstream_task_ids
        # Airflow gives the trigger up at the earlier of the two.
        assert observe.start_trigger_args.timeout < observe.execution_timeout


def test_whatever_started_the_stream_is_verified(bag: Any) -> None:
    for dag in streams(bag):
        verify = dag.get_task("verify")
        assert verify.upstream_task_ids == {"restart", "answer"} == set(verify.starters)
        assert verify.trigger_rule == "none_failed_min_one_success"
        assert dag.get_task("answer").upstream_task_ids == {"ask"}


def test_a_supervision_that_does_not_end_is_noticed(bag: Any) -> None:
    from airflow._shared.module_loading import import_string

    for dag in streams(bag):
        (alert,) = dag.deadline
        policy = stream.load(dag.dag_id.removesuffix("_stream")).supervision
        assert type(alert.reference).__name__ == "DagRunQueuedAtDeadline"
        assert timedelta(seconds=2 * policy.interval_seconds) < alert.interval < dag.dagrun_timeout
        callback = import_string(alert.callback.path)
        inspect.signature(callback).bind(**alert.callback.kwargs, context={})
        assert alert.callback.kwargs["stream"] == dag.dag_id.removesuffix("_stream")
        # A question may wait for its answer.
        assert dag.get_task("ask").response_timeout < dag.dagrun_timeout


def test_the_scheduler_gets_all_of_it(bag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in streams(bag):
        kept = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
        observe = kept.get_task("observe")
        assert observe.start_from_trigger
        assert observe.inherits_from_skipmixin
        assert getattr(observe.start_trigger_args, "next_method", None) == "resume"
        assert kept.get_task("restart").inherits_from_skipmixin
        assert not kept.get_task("quiet").has_on_success_callback


def test_the_form_explains_itself_and_refuses(bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    for dag_id, dag in bag.dags.items():
        for name in dag.params:
            param = dag.params.get_param(name)
            assert param.description, f"{dag_id} {name} has no description"
            assert param.schema.get("title"), f"{dag_id} {name} has no title"
            assert param.schema.get("type"), f"{dag_id} {name} has no type"
            param.resolve()
    params = bag.dags["wiki_changes_load"].params
    for name, wrong in [
        ("events", 0),
        ("events", 10_000_001),
        ("events", 1.5),
        ("events", "all"),
        ("minutes", 0),
        ("minutes", 721),
        ("max_quarantined_percent", -1),
        ("landed_timeout_minutes", 0),
    ]:
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(wrong)
    assert [params.get_param(name).resolve() for name in ("events", "minutes")] == [10_000, 5]
    before = bag.dags["wiki_changes_compact"].params.get_param("before")
    assert (before.resolve(), before.resolve("2026-11-20")) == (None, "2026-11-20")
    for wrong in ("yesterday", "2026-13-01", 20261120):
        with pytest.raises(ParamValidationError):
            before.resolve(wrong)
    params = bag.dags["nyc_taxi_load"].params
    for name, wrong in [
        ("max_quarantined_percent", 101),
        ("max_quarantined_percent", "much"),
        ("landed_timeout_minutes", 0),
        ("landed_timeout_minutes", 1.5),
        ("source_prefix", ""),
        ("source_prefix", "/absolute"),
        ("objects", ["a.parquet"]),
        ("objects", "a.csv"),
    ]:
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(wrong)
    assert params.get_param("objects").resolve(["a/b.csv.gz"]) == ["a/b.csv.gz"]
    for dag in streams(bag):
        action = dag.params.get_param("action")
        assert (action.resolve(), action.schema["enum"]) == ("supervise", [action.value for action in Action])
        for wrong in ("", "Restart", "kill"):
            with pytest.raises(ParamValidationError):
                action.resolve(wrong)
        assert dag.params.get_param("why").resolve() is None


def test_no_task_renders_a_secret(bag: Any) -> None:
    words = ("password", "secret", "access_key", "sasl")
    for dag in bag.dags.values():
        for task in dag.tasks:
            rendered = json.dumps(
                {name: getattr(task, name, None) for name in task.template_fields}, default=str
            )
            assert not any(word in rendered.lower() for word in words), f"{task.task_id} renders {rendered}"


def test_a_dag_file_does_nothing_at_import() -> None:
    """No socket, no process, no file read but Python's own and each stream.toml, and within the time.

    The time is the processor's, so that a busy machine changes nothing; Airflow itself is imported before.
    """
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("at_import.py")), *map(str, files())],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPO,
        check=False,
        env={**_environment(), "PYTHONPATH": f"{REPO / 'plugins'}:{REPO}"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    seen = {found["file"]: found for found in map(json.loads, done.stdout.splitlines())}
    assert sorted(seen) == [file.name for file in files()]
    # What a stream is, and nothing else.
    read = {f"open {stream.load(name).folder / 'stream.toml'}" for name in stream.names()}
    assert {name: set(found["does"]) for name, found in seen.items() if found["does"]} == {"streams.py": read}
    # What only a running task needs.
    assert {name: found["loads"] for name, found in seen.items() if found["loads"]} == {}
    slow = {name: found["seconds"] for name, found in seen.items() if found["seconds"] >= PARSE_SECONDS}
    assert slow == {}


def _environment() -> dict[str, str]:
    # The audited process may not write, or look for, byte code that another test's Python left behind.
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def test_the_plugin_loader_leaves_the_package_alone() -> None:
    from airflow._shared.module_loading.file_discovery import find_path_from_directory

    found = [Path(path) for path in find_path_from_directory(str(REPO / "plugins"), ".airflowignore", "glob")]
    assert not [path for path in found if "sluice" in path.relative_to(REPO / "plugins").parts]


def test_dag_files_import_airflows_words_and_the_model_only() -> None:
    allowed = ("airflow", "sluice.operators", "sluice.sensors", "sluice.model")
    for file in files():
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [
                name for name in names if name.split(".")[0] in ("airflow", "sluice", "spark_jobs", "local")
            ]
            assert all(name.startswith(allowed) for name in ours), f"{file.relative_to(DAGS)}: {ours}"


def test_drills_exist_on_the_embedded_stack_only(monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(DAGS / "drills.py")
    assert "DrillOperator" in runpy.run_path(file)
    assert isinstance(runpy.run_path(file).get("dag"), DAG)
    monkeypatch.delenv("SLUICE_HOME")
    assert runpy.run_path(file).get("dag") is None
