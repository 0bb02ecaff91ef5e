"""Whatever a declaration holds, only its own stream suffers: it is there, red, and names the fault."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.config import folders, overrides
from sluice.config import streams as stream_files
from tests.dags.conftest import DAGS
from tests.support.declarations import (
    CONFIGURATION,
    HEALTHY,
    INVALID,
    NAME,
    VALID,
    DagFile,
    ids,
    make,
    reason,
    toml,
)

DEEP = "x = " + "[" * 5_000 + "]" * 5_000 + "\n"
TWO = "partitions = 2"
CONFIG = f'{TWO}\nconfig = {{"retention.ms" = [1]}}'
MESSAGES = f'{TWO}\nconfig = {{"max.message.bytes" = "1 MiB"}}'
BACKFILL = '[backfill]\nschedule = "{}"\nstart_date = "{}"\npattern = "a/%Y-%m-%d"\n'
GENERATED = """
name = "fuzzed"
schema = "schema.ddl"
decode = "transforms:rows"
table = "raw.fuzzed"
[topic]
name = "fuzzed"
partitions = 2
[budget]
versions_per_batch = 20
[generator]
rows = "generator:rows"
[generator.params.colour]
type = "string"
title = "Colour"
description = "Of each row"
"""


def keys(**values: str) -> str:
    return "".join(f"{key} = {value}\n" for key, value in values.items())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("key 'name' is missing",)),
        ("name = ", ("not valid TOML",)),
        (b"\xff\xfe", ("not UTF-8",)),
        (DEEP + toml(), ("not valid TOML", "nested")),
        ("a." * 5_000 + "a = 1\n" + toml(), ("nested deeper",)),
        (keys(x="9" * 5_000) + toml(), ("not valid TOML", "digits")),
        (keys(x="9" * 50) + toml(), ("x: 999", "out of range")),
        (keys(title='"\\u0000"') + toml(), ("title: '\\x00' has a control character",)),
        (keys(title=f'"{"x" * 101}"') + toml(), ("title 'xxx", "100 characters")),
        (b"#" * (1 << 20) + toml().encode(), ("larger than 1 MiB",)),
        (toml(more="[supervision]\ninterval_seconds = 100000000000\n"), ("interval_seconds is 100000",)),
        (toml(more="[maintenance]\nschedule_hours = 9007199254740\n"), ("schedule_hours is 9007",)),
        (toml(more="[maintenance]\nrestore_horizon_days = 4000\n"), ("restore_horizon_days is 4000",)),
        (toml("x" * 101), ("name 'xxx", "63")),
        (toml(NAME, (TWO, "partitions = 2147483648")), ("partitions is 2147483648", "at most")),
        (toml(NAME, (TWO, "partitions = 2026-01-01")), ("partitions: datetime.date(2026", "as a text")),
        (toml(NAME, ('"fuzzed"\npart', '"a b"\npart')), ("topic 'a b'",)),
        (toml(NAME, (TWO, CONFIG)), ("retention.ms", "[1]")),
        (toml(NAME, (TWO, MESSAGES)), ("max.message.bytes is '1 MiB'",)),
        (toml(more=BACKFILL.format("0 0 30 2 *", "2026-01-01")), ("'0 0 30 2 *' is no schedule",)),
        (toml(more=BACKFILL.format("@daily", "9999-12-31")), ("'9999-12-31' is no date",)),
        (f"{GENERATED}default = 2026-01-01\n", ("colour default", "as a text")),
        (f"{GENERATED}default = 7\n", ("default 7 does not fit",)),
        (f'{GENERATED}default = "a"\npattern = "(a+)+$"\n', ("unknown key 'pattern'",)),
    ],
)
def test_a_wrong_declaration_is_red_in_its_own_supervision_alone(
    text: str | bytes, words: tuple[str, ...], streams: Path, dag_file: DagFile
) -> None:
    folder = make(streams, NAME, text)
    (folder / "schema.ddl").write_text("ride_id STRING\n")
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID
    told = reason(dags)
    assert str(folder / "stream.toml") in told
    assert "Fix: " in told
    for word in words:
        assert word in told
    assert len(told) < 1_000
    assert told.isprintable()
    # What the task does, and what the other ways in say.
    with pytest.raises(AirflowFailException, match=r"SLU-101 .*Fix: "):
        dags[f"{NAME}_stream"].tasks[0].execute({})
    declared = stream_files.load_valid()
    assert [spec.name for spec in declared.specs] == list(VALID)
    assert declared.invalid == {NAME: told}


def unreadable(kind: str, file: Path) -> None:
    """In place of a declaration."""
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "dangling":
        file.symlink_to("nothing")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["folder", "loop", "dangling", "pipe", "device"])
@pytest.mark.parametrize("name", ["stream.toml", "schema.avsc"])
def test_a_file_that_cannot_be_read_is_named(kind: str, name: str, streams: Path, dag_file: DagFile) -> None:
    unreadable(kind, make(streams, NAME) / name)
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID
    assert str(streams / NAME / name) in reason(dags)
    assert "Fix: " in reason(dags)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_named(streams: Path, dag_file: DagFile) -> None:
    (make(streams, NAME) / "stream.toml").chmod(0)
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID
    assert "Permission denied" in reason(dags)


def test_a_stream_in_two_folders_is_red_and_names_both(
    streams: Path, dag_file: DagFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    places = [make(streams, NAME), make(other, NAME)]
    monkeypatch.setenv(folders.VARIABLE, f"{other}{os.pathsep}{other}")
    dags = dag_file()
    assert set(dags) == HEALTHY | INVALID, "a folder that is named twice is one"
    assert all(str(place) in reason(dags) for place in places)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_missing_folder_of_streams_stops_none_of_the_others(
    kind: str, streams: Path, dag_file: DagFile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    if kind == "file":
        wrong.write_text("")
    make(tmp_path / "other", NAME)
    monkeypatch.setenv(folders.VARIABLE, f"{wrong}{os.pathsep}{tmp_path / 'other'}")
    dags = dag_file()
    assert set(dags) == HEALTHY | ids(NAME) | {CONFIGURATION}
    assert str(wrong) in reason(dags, CONFIGURATION)
    assert folders.VARIABLE in reason(dags, CONFIGURATION)
    declared = stream_files.load_valid()
    assert (declared.invalid, "; ".join(declared.problems)) == ({}, reason(dags, CONFIGURATION))


@pytest.mark.parametrize("name", ["Rides", "rides (2)", "my-rides", "1st", "x" * 64, "a\nb"])
def test_a_folder_that_no_stream_can_have_is_named(name: str, streams: Path, dag_file: DagFile) -> None:
    make(streams, name)
    # A notebook makes this folder.
    make(streams, ".ipynb_checkpoints")
    dags = dag_file()
    assert set(dags) == HEALTHY | {CONFIGURATION}
    told = reason(dags, CONFIGURATION)
    assert "no stream can have that name" in told
    assert told.isprintable()


@pytest.mark.parametrize("name", ["common", "sluice"])
def test_a_stream_cannot_have_a_name_of_sluices_own(name: str, streams: Path, dag_file: DagFile) -> None:
    make(streams, name)
    dags = dag_file()
    assert set(dags) == HEALTHY | {f"{name}_stream"}
    assert repr(name) in reason(dags, f"{name}_stream")


def test_streams_that_share_a_table_or_topic_are_named_and_run(streams: Path, dag_file: DagFile) -> None:
    make(streams, NAME, toml(NAME, (f'raw.{NAME}"', 'raw.rides"')))
    dags = dag_file()
    assert set(dags) == HEALTHY | ids(NAME) | {CONFIGURATION}
    told = reason(dags, CONFIGURATION)
    assert f"streams {NAME}, rides: each declares table raw.rides of the lake. Fix: " in told
    make(streams, NAME, toml(NAME, (f'name = "{NAME}"\npart', 'name = "trips"\npart')))
    assert "each declares topic trips" in reason(dag_file(), CONFIGURATION)


OVERRIDES = [
    ("[unknown.supervision]\nstall_timeout_seconds = 15\n", True, ("'unknown' is no stream", "rides, trips")),
    ("[rides\n", True, ("not valid TOML",)),
    (DEEP, True, ("not valid TOML",)),
    (f"{NAME} = 15\n", False, (f"{NAME} is 15",)),
    (f"[{NAME}]\ntable = 'raw.x'\n", False, (f"{NAME}.table cannot be overridden",)),
    (
        f"[{NAME}.supervision]\nstall_timeout_seconds = {'9' * 30}\n",
        False,
        ("stall_timeout_seconds",),
    ),
    (f"[{NAME}.supervision]\nstall_timeout_seconds = 'x'\n", False, ("stall_timeout_seconds: 'x'",)),
]


@pytest.mark.parametrize(("text", "is_of_all", "words"), OVERRIDES)
def test_wrong_overrides_concern_the_stream_that_they_name(
    text: str,
    is_of_all: bool,
    words: tuple[str, ...],
    streams: Path,
    dag_file: DagFile,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    make(streams, NAME)
    file = tmp_path / "overrides.toml"
    file.write_text(text)
    monkeypatch.setenv(overrides.VARIABLE, str(file))
    dags = dag_file()
    own = ids(NAME) | {CONFIGURATION} if is_of_all else INVALID
    assert set(dags) == HEALTHY | own
    told = reason(dags, CONFIGURATION if is_of_all else f"{NAME}_stream")
    assert all(word in told for word in (str(file), "Fix: ", *words))


def test_overrides_that_are_missing_are_named_and_stop_no_stream(
    streams: Path, dag_file: DagFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(overrides.VARIABLE, str(streams / "none.toml"))
    dags = dag_file()
    assert set(dags) == HEALTHY | {CONFIGURATION}
    assert str(streams / "none.toml") in reason(dags, CONFIGURATION)


def test_a_stream_whose_dags_cannot_be_built_is_red_too(
    streams: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of its DAGs: none of the others is left half built."""
    from sluice.airflow.dags import docs

    build = docs.reconciliation

    def failing(spec: Any, steps: Any) -> str:
        if spec.name == NAME:
            raise LookupError(f"no text\nof {NAME}")
        return build(spec, steps)

    monkeypatch.setattr(docs, "reconciliation", failing)
    make(streams, NAME)
    dags = DagFile(DAGS / "streams.py")()
    assert set(dags) == HEALTHY | INVALID
    assert "LookupError: 'no text\\nof fuzzed'. Fix: " in reason(dags)


def test_the_dag_bag_has_the_same(streams: Path) -> None:
    """Airflow registers what is built in a context by itself, also what is not finished."""
    from airflow.dag_processing.dagbag import DagBag

    make(streams, NAME, "name = ")
    make(streams, "Wrong")
    found = DagBag(dag_folder=str(DAGS / "streams.py"))
    assert not found.import_errors
    assert set(found.dags) == HEALTHY | INVALID | {CONFIGURATION}


def test_an_invalid_declaration_of_a_new_stream_runs_without_being_unpaused(
    streams: Path, dag_file: DagFile
) -> None:
    """Its DAG is not unpaused by hand first: it says why the others are missing."""
    make(streams, NAME, "name = ")
    dags = dag_file()
    assert {dags[one].is_paused_upon_creation for one in INVALID} == {False}
    assert dags["rides_stream"].is_paused_upon_creation is None, "a valid stream is started by a person"


def test_the_configuration_runs_by_itself_and_is_told_to_every_rule(streams: Path, dag_file: DagFile) -> None:
    from sluice.airflow.callbacks import task_failed
    from sluice.config.notifications import INSTALLATION, Event, Rule

    make(streams, "Wrong")
    dag = dag_file()[CONFIGURATION]
    assert dag.is_paused_upon_creation is False
    assert dag.schedule == dag_file()["rides_stream"].schedule
    (task,) = dag.tasks
    assert (task.stream, task.on_failure_callback) == (INSTALLATION, [task_failed])
    assert Rule("smtp", streams=["rides"]).covers(Event.ALERT, INSTALLATION)
    assert not Rule("smtp", streams=["rides"]).covers(Event.ALERT, "trips")
