"""``python -m spark_jobs``: which job runs, what it imports, and the functions that a stream names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.core.csv.header import InvalidHeader
from sluice.core.processes import exits
from spark_jobs import __main__ as entry_point
from spark_jobs.__main__ import JOBS, main
from spark_jobs.common.spark.functions import function
from tests.support.raising import raising

SPEC = streams.load("wiki_changes")


def test_every_component_is_a_job() -> None:
    parts = {name for stream_name in streams.names() for name in streams.load(stream_name).components}
    assert parts <= set(JOBS)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "job"),
        (["consume", "nyc_taxi"], "consume"),
        (["consumer", "nyc_taxi", "--plan", "x"], "--plan"),
        (["producer", "nyc_taxi"], "--plan"),
        (["compact", "wiki_changes", "--before", "soon"], "soon"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


def test_a_stream_that_is_unknown_is_an_end_that_no_restart_changes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["producer", "taxi"]) == exits.CONFIGURATION
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("SLU-101 ConfigError: ")
    assert "'taxi'" in last


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InvalidHeader("s3://b/k: no column 'x'"), "SLU-303 InvalidHeader: s3://b/k: no column 'x'"),
        (ConfigError("no key"), "SLU-101 ConfigError: no key"),
        # As Spark passes on the traceback of a worker.
        (
            RuntimeError(
                "Traceback\n  File x\nspark_jobs.common.producer.source_object.CorruptObject: s3://b/k: short"
            ),
            "SLU-302 CorruptObject: s3://b/k: short",
        ),
    ],
)
def test_a_cause_that_says_everything_is_a_line_without_a_traceback(
    error: Exception, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_failing(error, monkeypatch) in (1, exits.CONFIGURATION)
    assert capsys.readouterr().err == f"{line}\n"


def test_any_other_failure_has_its_traceback_above_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_failing(LookupError("no topic"), monkeypatch) == 1
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == ("Traceback (most recent call last):", "SLU-500 LookupError: no topic")


def run_failing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int:
    def job(name: str, options: Sequence[str]) -> int:
        raise error

    monkeypatch.setattr(entry_point, "JOBS", {"producer": job})
    return main(["producer", "nyc_taxi"])


def test_a_feeds_producer_imports_no_spark() -> None:
    code = (
        "import sys\n"
        "from sluice.config import streams\n"
        "from spark_jobs.__main__ import main\n"
        "from spark_jobs.common.feed.run import source\n"
        "spec = streams.load('wiki_changes')\n"
        "source(spec, spec.feed)\n"
        "try: main(['producer', 'wiki_changes', '--events', '0'])\n"
        "except SystemExit: print('pyspark' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


def test_every_function_that_a_stream_names_is_there() -> None:
    for spec in map(streams.load, streams.names()):
        references = [spec.decode]
        if spec.feed:
            references += [spec.feed.event, spec.feed.rewind]
        if spec.generator:
            references += [spec.generator.rows]
        assert all(callable(function(spec, reference)) for reference in references if reference)


@pytest.mark.parametrize("reference", ["events:write", "nothing:read", "events:OVERLAP_MS"])
def test_a_function_that_is_missing_is_named(reference: str) -> None:
    with raising(ConfigError, "'wiki_changes'", repr(reference)):
        function(replace(SPEC, decode=reference), reference)


def test_a_worker_unpickles_a_function_of_a_stream_outside_the_package(tmp_path: Path) -> None:
    stream_folder = tmp_path / "rides"
    stream_folder.mkdir()
    (stream_folder / "transforms.py").write_text("def rides():\n    return 7\n")
    code = "import pickle; print(pickle.loads(b'cspark_jobs.rides.transforms\\nrides\\n.')())"
    environment = os.environ | {"SLUICE_STREAMS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout == "7\n", done.stderr
