"""Policies over the whole DAG bag: what every DAG has, so that the person on call finds it there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import runpy
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from sluice.airflow.dags.streams import stream_dags
from sluice.airflow.operators.base import BACKSTOP
from sluice.airflow.operators.maintenance.reconciliation import UnchangedOperator
from sluice.config import streams as stream_files
from sluice.config import work_pool
from sluice.core.csv.form import SUFFIXES
from sluice.supervision.lifecycle import Action
from tests.dags.conftest import DAGS, REPO, files
from tests.drills.faults import DRILLS

PARSE_SECONDS = 2.0

SINKS, SINKS_DONE = "provision_sinks", "sinks_provisioned"
# DAGs that are alike in every stream have one text.
SHARED = ("_stream",)


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


def test_a_restart_passes_whatever_else_waits_for_a_slot(bag: Any) -> None:
    kinds = ("maintenance", "reconciliation", "backfill", "load", "change", "stream")
    weights = [
        {
            task.priority_weight
            for dag_id, dag in bag.dags.items()
            if dag_id.endswith(f"_{kind}")
            for task in dag.tasks
        }
        for kind in kinds
    ]
    assert [len(of_kind) for of_kind in weights] == [1] * len(kinds)
    ordered = [weight for (weight,) in weights]
    assert ordered == sorted(set(ordered))
    assert tasks(bag, lambda task: task.weight_rule == "absolute") == []


def test_what_may_take_long_leaves_slots_to_supervision(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its priority, a restart waits while every slot has a compaction of two hours."""
    spec = stream_files.load("isp_hits")

    def pools() -> dict[str, set[str]]:
        return {dag.dag_id: {task.pool for task in dag.tasks} for dag in stream_dags(spec)}

    monkeypatch.delenv(work_pool.VARIABLE, raising=False)
    assert set().union(*pools().values()) == {"default_pool"}
    monkeypatch.setenv(work_pool.VARIABLE, "sluice_work:3")
    found = pools()
    assert found.pop("isp_hits_stream") == {"default_pool"}
    assert all(pool == {"sluice_work"} for pool in found.values())
    assert len(found) == 4


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
        # The next run is supervision's retry: a step that is tried again would only hide what it saw.
        lambda task: (
            task.retries == 0
            if task.dag.dag_id.endswith(SHARED)
            else task.retries >= 1 and task.retry_delay >= timedelta(seconds=5)
        ),
    )
    assert not tasks(bag, lambda task: isinstance(task.execution_timeout, timedelta))


def waits(task: Any) -> list[timedelta]:
    """Each of the task's waits in the triggerer at its longest: what the form allows, with the backstop."""
    allowed = {name: task.dag.params.get_param(name).schema.get("maximum") for name in task.dag.params}
    kind = type(task).__name__
    has_stream = kind not in ("DrillOperator", "CheckConnectionsOperator")
    supervision = stream_files.load(task.stream).supervision if has_stream else None
    recovery = timedelta(seconds=max(120, supervision.startup_timeout_seconds if supervision else 0))
    found = {
        "PublishedSensor": lambda: [timedelta(minutes=allowed["publish_timeout_minutes"]) + BACKSTOP],
        "ProduceFeedOperator": lambda: [timedelta(minutes=allowed["minutes"]) + BACKSTOP],
        "SuperviseOperator": lambda: [task.start_trigger_args.timeout, recovery + BACKSTOP],
        "SuperviseSinksOperator": lambda: [task.start_trigger_args.timeout],
        "ApproveChangeOperator": lambda: [task.response_timeout],
        "EnsureConsumerOperator": lambda: [timedelta(minutes=3) + BACKSTOP],
        "ObserveOffsetsOperator": lambda: [task.start_trigger_args.timeout],
        "CheckFilesOperator": lambda: [task.start_trigger_args.timeout],
        "VerifyTableOperator": lambda: [
            task.start_trigger_args.timeout,
            *(timedelta(seconds=n) + BACKSTOP for n in (5, 15, 40)),
        ],
    } | {
        kind: lambda: [timedelta(minutes=1) + BACKSTOP]
        for kind in ("ValidateOperator", "PlanChangeOperator", "VerifyChangeOperator")
    }
    return found[kind]() if kind in found else []


def defers(task: Any) -> bool:
    """Whether the code of its class, or of one of ours that it is made of, waits in the triggerer."""
    rooms = ("sluice.airflow.operators", "sluice.airflow.sensors")
    ours = [kind for kind in type(task).__mro__ if kind.__module__.startswith(rooms)]
    bases = ("StreamOperator", "ComponentOperator")
    source = "".join(inspect.getsource(kind) for kind in ours if kind.__name__ not in bases)
    calls = ("self.wait_for(", "self.defer(", "HITLOperator", "ApprovalOperator")
    return task.start_from_trigger or any(call in source for call in calls)


def before(task: Any) -> set[str]:
    """The tasks that have succeeded when it runs, if every task runs only then."""
    found: set[str] = set()
    for one in task.upstream_list:
        assert one.trigger_rule == "all_success", one.task_id
        found |= {one.task_id} | before(one)
    return found


def test_what_announces_a_run_is_its_last_task_and_waits_for_all_others(bag: Any) -> None:
    """Nothing that can fail comes after an asset event, or beside it: who reads it takes the run as right."""
    announcing = [task for dag in bag.dags.values() for task in dag.tasks if task.outlets]
    assert {f"{name}_load" for name in stream_files.names()} <= {task.dag.dag_id for task in announcing}
    assert "nyc_taxi_backfill" in {task.dag.dag_id for task in announcing}
    early = {
        f"{task.dag.dag_id}.{task.task_id}": sorted(set(task.dag.task_ids) - before(task) - {task.task_id})
        for task in announcing
        if task.trigger_rule != "all_success" or set(task.dag.task_ids) != before(task) | {task.task_id}
    }
    assert early == {}


def test_the_waits_of_all_tasks_are_known(bag: Any) -> None:
    assert not tasks(bag, lambda task: defers(task) == bool(waits(task)))


def test_no_task_sleeps_in_a_worker() -> None:
    """It waits in the triggerer, where thousands may. But for a pause between two reads of a sink, which are
    work, of which a return from the triggerer would take longer; and for the pauses of a minute in all of a
    step of reconciliation that no triggerer looked at."""
    package = REPO / "plugins" / "sluice"
    sleeping = {
        file.name
        for folder in (package / "airflow" / "operators", package / "queries")
        for file in folder.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "sleep"
    }
    assert sleeping == {"sinks.py", "reconciliation.py"}


@cache
def longest(task: Any) -> timedelta:
    """From the begin of the run to the end of the task, if everything takes as long as it may."""
    before = max(map(longest, task.upstream_list), default=timedelta())
    # Each return from the triggerer is a process of its own, with a timeout of its own.
    phases = len(waits(task)) + (0 if task.start_from_trigger else 1)
    one_try = task.execution_timeout * phases + sum(waits(task), timedelta())
    # If a task runs once at a time, the other runs' go first.
    turns = task.dag.max_active_runs if task.max_active_tis_per_dag == 1 else 1
    return before + one_try * (task.retries + 1) * turns + task.retry_delay * task.retries


def test_a_run_ends_by_its_tasks_and_not_by_its_own_timeout(bag: Any) -> None:
    """The timeout of a run skips what is left, and no task says why."""
    kinds = {dag_id.rsplit("_", 1)[-1] for dag_id in bag.dags}
    assert kinds >= {
        "load", "backfill", "stream", "maintenance", "change", "reconciliation",
    }  # fmt: skip
    paths = {dag_id: max(map(longest, dag.tasks)) for dag_id, dag in bag.dags.items()}
    short = {
        dag_id: f"{path} of {bag.dags[dag_id].dagrun_timeout}"
        for dag_id, path in paths.items()
        if path >= bag.dags[dag_id].dagrun_timeout
    }
    assert short == {}


def test_runs_of_changes_do_not_block_each_other(bag: Any) -> None:
    changes = [dag for dag_id, dag in bag.dags.items() if dag_id.endswith("_change")]
    assert changes
    for dag in changes:
        # If two are approved, one is applied after the other.
        assert dag.max_active_runs == 16
        assert dag.get_task("apply_change").max_active_tis_per_dag == 1


def test_what_has_no_schedule_of_its_own_is_not_paused_at_first(bag: Any) -> None:
    """A request of a paused DAG waits unseen, as does a certificate that ends."""
    running = {dag_id for dag_id, dag in bag.dags.items() if dag.is_paused_upon_creation is False}
    assert running == {f"{name}_change" for name in stream_files.names()} | {"sluice_connections"}


def test_the_connections_are_looked_at_daily_and_not_while_a_stack_starts(
    bag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the scheduler reads a new DAG: the first run is at the next hour, just after one too."""
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.timetables import trigger
    from airflow.timetables.base import TimeRestriction

    dag = bag.dags["sluice_connections"]
    # Airflow runs a new DAG with a start date at once.
    assert (dag.start_date, dag.catchup) == (None, False)
    assert [task.start_date for task in dag.tasks] == [None]
    stored = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    timetable: Any = DagSerialization.from_dict(stored).timetable
    for minute, day in ((16, 1), (18, 2)):
        now = datetime(2026, 2, 1, 5, minute, tzinfo=UTC)
        monkeypatch.setattr(trigger, "utcnow", lambda now=now: now)
        first = timetable.next_dagrun_info(
            last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False)
        )
        assert first.run_after == datetime(2026, 2, day, 5, 17, tzinfo=UTC)


def test_no_form_turns_the_approval_of_a_change_off(bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        bag.dags["nyc_taxi_change"].params.get_param("ask_above").resolve(10**12)


def streams(bag: Any) -> list[Any]:
    found = [dag for dag_id, dag in bag.dags.items() if dag_id.endswith("_stream")]
    assert {dag.dag_id for dag in found} == {f"{name}_stream" for name in stream_files.names()}
    return found


def test_each_stream_is_supervised_as_often_as_it_says(bag: Any) -> None:
    for dag in streams(bag):
        policy = stream_files.load(dag.dag_id.removesuffix("_stream")).supervision
        assert dag.schedule == timedelta(seconds=policy.interval_seconds)
        # One after the other: two at once would see each other's restarts as their own.
        assert (dag.max_active_runs, dag.catchup) == (1, False)
        assert "stream" in dag.tags


def test_every_component_is_supervised_by_one_task_of_its_name(bag: Any) -> None:
    for dag in streams(bag):
        spec = stream_files.load(dag.dag_id.removesuffix("_stream"))
        sinks = {SINKS} if "queries" in spec.components else set()
        assert {task.task_id for task in dag.tasks} == {*spec.components, *sinks, *after(sinks)}
        assert dag.params.get_param("component").schema["enum"] == ["all", *spec.components]
        for component in spec.components:
            task = dag.get_task(component)
            assert (task.component, task.stream) == (component, spec.name)
            # The queries are supervised whatever the state of their sinks.
            before = sinks if component == "queries" else set()
            assert task.upstream_task_ids | task.downstream_task_ids == before
            assert task.trigger_rule == ("all_done" if before else "all_success")
        for name in sinks:
            assert dag.get_task(name).downstream_task_ids == {"queries", *after(sinks)}


def after(sinks: set[str]) -> set[str]:
    return {SINKS_DONE} if sinks else set()


def has_leaf(task: Any) -> bool:
    """Whether a leaf, which decides on the run's state, does not succeed unless the task does."""
    # Neither runs behind a failure; the second does behind a step that is skipped.
    rules = ("all_success", "none_failed")
    children = [child for child in task.downstream_list if child.trigger_rule in rules]
    return not task.downstream_list or any(map(has_leaf, children))


def test_no_run_succeeds_of_which_a_task_failed(bag: Any) -> None:
    assert not tasks(bag, has_leaf)
    rules = {task.trigger_rule for dag in bag.dags.values() for task in dag.tasks}
    assert rules == {"all_success", "none_failed", "all_done"}


def test_a_load_of_a_stream_with_queries_makes_their_sinks_and_checks_them(bag: Any) -> None:
    seen = 0
    for name in stream_files.names():
        steps = {task.task_id: task.downstream_task_ids for task in bag.dags[f"{name}_load"].tasks}
        if stream_files.load(name).queries:
            seen += 1
            assert steps["provision_topic"] == {SINKS}
            assert steps["ensure_consumer"] == {"ensure_queries"}
            assert (steps["validate"], steps["wait_for_queries"]) == (
                {"wait_for_queries"},
                {"compare_sinks"},
            )
        else:
            assert SINKS not in steps
    assert seen


def test_a_failed_compaction_fails_the_run_and_stops_no_removal_once_it_is_verified(bag: Any) -> None:
    for name in stream_files.names():
        dag = bag.dags[f"{name}_maintenance"]
        assert dag.get_task("verify_compaction").trigger_rule == "all_done"
        removing = dag.get_task("remove_files")
        assert (removing.trigger_rule, removing.upstream_task_ids) == (
            "none_failed", {"verify_compaction"},
        )  # fmt: skip
        # The only leaf, so that it decides on the run's state.
        (last,) = (task for task in dag.tasks if not task.downstream_task_ids)
        assert (last.task_id, last.trigger_rule, last.upstream_task_ids) == (
            "record_maintenance", "none_failed", {"compact", "remove_history"},
        )  # fmt: skip


def test_what_is_healthy_costs_no_worker(bag: Any) -> None:
    for dag in streams(bag):
        for task in supervising(dag):
            assert task.start_from_trigger
            # Airflow gives the trigger up at the earlier of the two.
            assert task.start_trigger_args.timeout < task.execution_timeout


# An idle stream's: what has no schedule does not run, maintenance runs as it is, and of reconciliation only
# what looks at everything once in `reverify_hours`.
DAILY_TASKS, DAILY_RUNS = 30, 800


def runs_a_day(dag: Any) -> float:
    return timedelta(days=1) / dag.schedule if isinstance(dag.schedule, timedelta) else 0.0


def workers_a_day(bag: Any, task: Any) -> float:
    """Worker tasks of an idle stream: none of what the scheduler marks, or the triggerer ends."""
    if type(task).__name__ == "SinksProvisionedOperator":
        return 0.0
    if isinstance(task, UnchangedOperator):
        again = stream_files.load(task.stream).maintenance.reverify_hours
        # What maintenance commits is looked at once more.
        return 24 / again + runs_a_day(bag.dags[f"{task.stream}_maintenance"])
    return 0.0 if task.start_from_trigger else runs_a_day(task.dag)


def test_an_idle_stream_takes_few_workers_a_day(bag: Any) -> None:
    for name in stream_files.names():
        dags = [bag.dags[f"{name}_{kind}"] for kind in ("stream", "maintenance", "reconciliation")]
        scheduled = {dag_id for dag_id, dag in bag.dags.items() if isinstance(dag.schedule, timedelta)}
        assert {dag_id for dag_id in scheduled if dag_id.startswith(f"{name}_")} == {d.dag_id for d in dags}
        found = {task.task_id: workers_a_day(bag, task) for dag in dags for task in dag.tasks}
        taking = {name: count for name, count in found.items() if count}
        steps = [task.task_id for task in bag.dags[f"{name}_maintenance"].tasks]
        assert taking == dict.fromkeys(steps, 1.0) | {"verify_table": 2.0, "check_files": 2.0}
        assert sum(taking.values()) <= DAILY_TASKS
        assert sum(map(runs_a_day, dags)) <= DAILY_RUNS


def supervising(dag: Any) -> list[Any]:
    return [task for task in dag.tasks if task.task_id != SINKS_DONE]


def test_a_supervision_that_does_not_end_is_noticed(bag: Any) -> None:
    from airflow._shared.module_loading import import_string

    for dag in streams(bag):
        (alert,) = dag.deadline
        policy = stream_files.load(dag.dag_id.removesuffix("_stream")).supervision
        assert type(alert.reference).__name__ == "DagRunQueuedAtDeadline"
        assert timedelta(seconds=2 * policy.interval_seconds) < alert.interval < dag.dagrun_timeout
        # In the triggerer: Airflow 3.3 denies connections to a callback in the executor.
        assert type(alert.callback).__name__ == "AsyncCallback"
        callback = import_string(alert.callback.path)
        inspect.signature(callback).bind(**alert.callback.kwargs, context={})
        assert alert.callback.kwargs["stream"] == dag.dag_id.removesuffix("_stream")


def test_every_failure_over_a_stream_is_told(bag: Any) -> None:
    from sluice.airflow.callbacks import run_failed, run_succeeded, task_failed

    of_streams = {dag_id: dag for dag_id, dag in bag.dags.items() if dag_id != "drill"}
    assert of_streams
    # The next check of supervision tells by itself; a run of it that hangs has missed its deadline.
    whole = {dag_id: dag for dag_id, dag in of_streams.items() if not dag_id.endswith(SHARED)}
    for dag in of_streams.values():
        assert all(task.on_failure_callback == [task_failed] for task in dag.tasks), dag.dag_id
    for dag_id, dag in whole.items():
        assert dag.on_failure_callback.func is run_failed
        assert dag.on_failure_callback.args == (dag.tasks[0].stream,)
        is_scheduled = dag_id.endswith(("_maintenance", "_reconciliation", "_connections"))
        assert (dag.on_success_callback is not None) is is_scheduled
        assert not is_scheduled or dag.on_success_callback.func is run_succeeded
    assert not bag.dags["drill"].on_failure_callback, "a drill breaks its stream on purpose"


def test_the_scheduler_gets_all_of_it(bag: Any) -> None:
    from airflow.serialization.serialized_objects import DagSerialization

    for dag in streams(bag):
        kept = DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag))))
        for task in supervising(kept):
            assert task.start_from_trigger
            method = "provision" if task.task_id == SINKS else "act"
            assert getattr(task.start_trigger_args, "next_method", None) == method


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
        ("publish_timeout_minutes", 0),
    ]:
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(wrong)
    assert [params.get_param(name).resolve() for name in ("events", "minutes")] == [10_000, 5]
    before = bag.dags["wiki_changes_maintenance"].params.get_param("compact_before")
    assert (before.resolve(), before.resolve("2026-11-20")) == (None, "2026-11-20")
    for wrong in ("yesterday", "2026-13-01", 20261120):
        with pytest.raises(ParamValidationError):
            before.resolve(wrong)
    params = bag.dags["nyc_taxi_load"].params
    for name, wrong in [
        ("max_quarantined_percent", 101),
        ("max_quarantined_percent", "much"),
        ("publish_timeout_minutes", 0),
        ("publish_timeout_minutes", 1.5),
        ("source_prefix", ""),
        ("source_prefix", "/absolute"),
        ("source_prefix", "nyc_taxi"),
        ("source_prefix", "other/"),
        ("source_prefix", "nyc_taxi/../other/"),
        ("source_prefix", "nyc_taxi/.."),
        ("source_prefix", "x/nyc_taxi/"),
        ("objects", ["nyc_taxi/a.parquet"]),
        ("objects", "nyc_taxi/a.csv"),
        ("objects", ["other/a.csv"]),
        ("objects", ["nyc_taxi/a.csv", "nyc_taxi/../other/a.csv"]),
        ("objects", ["nyc_taxi/./a.csv"]),
        ("objects", ["nyc_taxi/a\n.csv"]),
        ("objects", ["nyc_taxi/a\x85.csv"]),
        ("objects", ["nyc_taxi/a\u2028.csv"]),
    ]:
        with pytest.raises(ParamValidationError):
            params.get_param(name).resolve(wrong)
    keys = [
        "nyc_taxi/b.csv.gz",
        *(f"nyc_taxi/b{case(suffix)}" for suffix in SUFFIXES for case in (str.lower, str.upper, str.title)),
        "nyc_taxi/a..b/c...csv",
        "nyc_taxi/ä b.csv",
        "nyc_taxi/3.45\u202fPM\ufeff.csv",
    ]
    assert params.get_param("objects").resolve(keys) == keys
    assert params.get_param("source_prefix").resolve("nyc_taxi/2020/") == "nyc_taxi/2020/"
    for dag in streams(bag):
        action = dag.params.get_param("action")
        assert (action.resolve(), action.schema["enum"]) == ("check", [action.value for action in Action])
        for wrong in ("", "Restart", "kill"):
            with pytest.raises(ParamValidationError):
                action.resolve(wrong)
        assert dag.params.get_param("reason").resolve() is None


def test_no_task_renders_a_secret(bag: Any) -> None:
    words = ("password", "secret", "access_key", "sasl")
    for dag in bag.dags.values():
        for task in dag.tasks:
            rendered = json.dumps(
                {name: getattr(task, name, None) for name in task.template_fields}, default=str
            )
            assert not any(word in rendered.lower() for word in words), f"{task.task_id} renders {rendered}"


def test_what_is_used_before_it_could_be_rendered_is_no_template(bag: Any) -> None:
    """The names of triggers, assets and programs are made of it when the DAG is parsed."""
    assert not tasks(bag, lambda task: "stream" not in task.template_fields)


def test_a_dag_file_does_nothing_at_import() -> None:
    """No socket, no process, no file but Python's own and the streams' declarations, and within the time.

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
    specs = [stream_files.load(name) for name in stream_files.names()]
    read = {f"open {spec.folder / name}" for spec in specs for name in ("stream.toml", spec.schema)}
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
    allowed = ("airflow", "sluice.airflow", "sluice.config")
    for file in files():
        for node in ast.walk(ast.parse(file.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [
                name for name in names if name.split(".")[0] in ("airflow", "sluice", "spark_jobs", "local")
            ]
            assert all(name.startswith(allowed) for name in ours), f"{file.relative_to(DAGS)}: {ours}"


def test_the_drill_is_chosen_in_the_form_but_for_the_one_that_kills_airflow(bag: Any) -> None:
    dag = bag.dags["drill"]
    form = dag.params.get_param("drill").schema
    assert form["values_display"] == {d.name: d.what for d in DRILLS.values() if d.name != "airflow_killed"}
    assert form["enum"] == list(form["values_display"])
    assert dag.max_active_runs == 1


def test_drills_exist_on_the_embedded_stack_only(monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(DAGS / "drills.py")
    assert "DrillOperator" in runpy.run_path(file)
    assert isinstance(runpy.run_path(file).get("dag"), DAG)
    monkeypatch.delenv("SLUICE_HOME")
    assert runpy.run_path(file).get("dag") is None
