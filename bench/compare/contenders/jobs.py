"""Contenders that produce CSV objects to a topic and consume a topic into the bucket."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from bench.compare.contenders import plain
from bench.compare.figures import Figures
from bench.compare.meter import Meter, S3Calls, at
from bench.compare.records import csv_columns, missing_columns, schema_text
from bench.compare.stack import LIMIT_SECONDS, BenchStack, phase, tail
from local.runtime.roles import SOURCE, WAREHOUSE
from local.stack.stack import wait_until
from sluice.airflow.operators.load.produce import java_options
from sluice.clients.kafka.login.properties import java
from sluice.clients.s3.objects import Bucket
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import ENTRY_POINT
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import produced
from sluice.loads.sources.csv_object import select_objects
from tests.support.stream import StreamUnderTest

# As the connection sluice_spark of the embedded stack.
SUBMIT = ("spark-submit", "--master", "local[2]")
RUN_ID = "compare"
_LINE = re.compile(r"^(\S+ \S+) INFO \S+: (Spark started|lease acquired|batch published)(.*)$", re.M)


@dataclass(frozen=True)
class Event:
    """A line of the consumer's log. ``at``: seconds since 1970; of a batch: its records and seconds."""

    at: float
    what: str
    records: int = 0
    seconds: float = 0.0


def events(text: str) -> list[Event]:
    """Starts and batches in a consumer's log, in its order."""
    found = []
    for time_text, what, rest in _LINE.findall(text):
        numbers = dict(re.findall(r"(records|seconds)=([\d.]+)", rest))
        at = datetime.strptime(time_text, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp()
        found.append(Event(at, what, int(numbers.get("records", 0)), float(numbers.get("seconds", 0))))
    return found


class Sluice:
    """Sluice with everything on: plan, identity of each row, verification, publish, proof."""

    def __init__(self, bench: BenchStack, stream: str) -> None:
        self.bench, self.spec = bench, bench.spec(stream)
        self.stream = StreamUnderTest(bench.stack, self.spec)
        self.log = bench.stack.home.logs / f"{self.spec.program}.log"
        self.run_id = RUN_ID
        # Bytes of the log that are read no more.
        self._read = 0

    def produce(self, prefix: str, rows: int) -> Figures:
        """As task ``produce``: pin the plan, submit the job, record the sources' offsets."""
        ledger = self.bench.stack.systems("airflow").ledger(self.spec.name)
        topic, kafka = self.spec.topic.name, self.bench.kafka_admin()
        before = self.bench.records(topic)
        bucket = Bucket(self.bench.stack.s3("airflow"), SOURCE)
        form = {"source_prefix": "", "objects": []}
        planner = LoadPlanner(
            ledger,
            kafka,
            topic,
            form,
            rules=lambda: SendingRules.of(self.spec, kafka.max_message_bytes(topic)),
        )
        plan = planner.pin(
            self.run_id,
            {"source_prefix": prefix, "objects": []},
            lambda params: select_objects(ledger, bucket, params),
        )
        uri = ledger.uri(run_key(self.run_id, "plan"))
        named = ("--name", f"sluice-{self.spec.name}-producer")
        conf = [f"--conf={key}={value}" for key, value in java_options(self.spec.source).items()]
        job = (str(ENTRY_POINT), "producer", self.spec.name, "--plan", uri)
        figures = self.bench.run([*SUBMIT, *named, *conf, *job], f"{self.spec.name}-produce", rows)
        produced.complete(ledger, plan, kafka.ends(topic))
        check(f"records of {topic}", self.bench.records(topic) - before, rows)
        return figures

    def consume(self, rows: int) -> Figures:
        """From the start of the consumer's process until all rows are published."""
        calls = S3Calls(self.bench.stack)
        with self.running() as meter:
            found = self.wait_for_records(rows)
        began = next(event.at for event in found if event.what == "Spark started")
        batches = [event for event in found if event.records]
        # First of all: what follows reads the bucket.
        figures = phase(meter, rows, began, batches[-1].at) | calls.figures()
        check(f"rows of {self.spec.table}", self.published(), rows)
        written = [commit.seconds for commit in self.stream.commits() if commit.kind == "batch"]
        seconds = sum(batch.seconds for batch in batches[-len(written) :])
        return figures | {
            "batches": float(len(batches)),
            **from_start(meter, began, batches[-1].at),
            "publish_share": round(1 - sum(one or 0.0 for one in written) / seconds, 3),
            **self.bench.stored(self.bench.table_prefix(self.spec)),
        }

    @contextmanager
    def running(self) -> Iterator[Meter]:
        """The consumer, measured, until the end of ``with``."""
        proxy = self.bench.stack.daemon.proxy()
        proxy.startProcess(self.spec.program, False)
        pid = int(proxy.getProcessInfo(self.spec.program)["pid"])
        with Meter({"job": pid, **self.bench.services()}) as meter:
            yield meter
            self.stream.stop_stream()

    def validate(self) -> Figures:
        """Task ``validate`` in a process of its own; CPU seconds without the import of Airflow."""
        command = [sys.executable, "-m", "bench.compare.contenders.validate", self.spec.name, self.run_id]
        name = f"{self.spec.name}-validate"
        whole = self.bench.run(command, name, 0)
        figures: Figures = json.loads(tail(self.bench.log(name)).splitlines()[-1])
        return figures | {"s3_calls": whole["s3_calls"]}

    def published(self) -> int:
        return total_records(self.stream.table())

    def wait_for_records(self, records: int) -> list[Event]:
        """The events of the consumer's log when N ``records`` are published."""
        return self.wait(lambda found: sum(event.records for event in found) >= records)

    def wait(self, done: Callable[[list[Event]], bool]) -> list[Event]:
        """The events of the consumer's log when they are ``done``. Raises TimeoutError with its end."""
        found: list[Event] = []

        def is_done() -> bool:
            text = self.log.read_bytes()[self._read :] if self.log.exists() else b""
            found[:] = events(text.decode(errors="replace"))
            return done(found)

        try:
            wait_until(f"the consumer of {self.spec.name}", is_done, LIMIT_SECONDS, 0.1)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{tail(self.log)}") from error
        return found


class Plain:
    """The plain way, ``bench/compare/contenders/plain.py``. ``name``: of its files and of its topic."""

    def __init__(
        self,
        bench: BenchStack,
        name: str,
        tuned: bool,
        max_offsets: int,
    ) -> None:
        self.bench, self.name, self.tuned = bench, name, tuned
        self.max_offsets = max_offsets
        self.folder = f"files/{name}/"

    def produce(self, prefix: str, rows: int) -> Figures:
        self.bench.make_topic(self.name)
        settings = self.settings(
            self.name,
            source=f"s3a://{SOURCE}/{prefix}",
            columns=", ".join(f"{name} {kind}" for name, kind in csv_columns().items()),
            missing_columns=missing_columns(),
            times="MM/dd/yyyy hh:mm:ss a",
        )
        figures = self.bench.run([*SUBMIT, plain.__file__, "produce", settings], f"{self.name}-produce", rows)
        check(f"records of {self.name}", self.bench.records(self.name), rows)
        return figures

    def consumer(self, topic: str) -> list[str | Path]:
        settings = self.settings(
            topic,
            path=f"s3a://{WAREHOUSE}/{self.folder}data",
            checkpoint=f"s3a://{WAREHOUSE}/{self.folder}checkpoint",
            max_offsets_per_trigger=str(self.max_offsets),
        )
        return [sys.executable, plain.__file__, "consume", settings]

    def consume(self, topic: str, rows: int) -> Figures:
        """From the start of the query until the batch with the last rows is committed."""
        return self.measured(self.consumer(topic), rows) | self.bench.stored(self.folder)

    def measured(self, command: list[str | Path], rows: int) -> Figures:
        """As :meth:`consume`, of a consumer's command; without what is stored."""
        calls, name = S3Calls(self.bench.stack), f"{self.name}-consume"
        with self.bench.started(command, name) as (process, meter, log):
            batches = wait_for_batches(process, log, rows)
        began, ended = started_at(log), batches[-1]["ended"]
        check(f"rows of {name}", sum(batch["rows"] for batch in batches), rows)
        return (
            phase(meter, rows, began, ended)
            | calls.figures()
            | {"batches": float(len(batches)), **from_start(meter, began, ended)}
        )

    def as_json(self, topic: str, to: str, rows: int) -> None:
        """Send the records of ``topic``, which exists, to topic ``to`` as JSON."""
        settings = self.settings(topic, to=to, columns=list(csv_columns()))
        self.bench.run([*SUBMIT, plain.__file__, "as_json", settings], self.name, rows)
        check(f"records of {to}", self.bench.records(to), rows)

    def settings(self, topic: str, **more: Any) -> Path:
        """The file that says what plain.py is to do."""
        # The superuser's login: the roles' rights are those of Sluice's own jobs.
        kafka = {f"kafka.{key}": value for key, value in java(self.bench.superuser()).items()}
        common = {"kafka": kafka, "s3a": self.bench.s3a(), "tuned": self.tuned, "schema": schema_text()}
        return self.bench.write_settings(self.name, {**common, "topic": topic, **more})


def from_start(meter: Meter, began: float, ended: float) -> Figures:
    """Seconds of the job's process before ``began``, and its CPU seconds from its start to ``ended``."""
    samples = meter.samples["job"]
    return {
        "start_seconds": round(began - samples[0][0], 2),
        "cpu_seconds_with_start": round(at(samples, ended), 2),
    }


def lines(log: Path) -> list[dict[str, Any]]:
    """The lines of JSON that plain.py has written."""
    text = log.read_text(errors="replace") if log.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"event"')]


def started_at(log: Path) -> float:
    return float(next(line["at"] for line in lines(log) if line["event"] == "started"))


def wait_for_batches(process: subprocess.Popen[bytes], log: Path, rows: int) -> list[dict[str, Any]]:
    """The batches of the plain way when they have all ``rows``, each with the time when it ``ended``."""
    found: list[dict[str, Any]] = []

    def is_done() -> bool:
        found[:] = [line for line in lines(log) if line["event"] == "batch"]
        check_runs(process, log)
        return sum(batch["rows"] for batch in found) >= rows

    wait_until(f"{rows} rows of the plain way in {log}", is_done, LIMIT_SECONDS, 0.1)
    for batch in found:
        batch["ended"] = datetime.fromisoformat(batch["began"]).timestamp() + batch["seconds"]
    return found


def check_runs(process: subprocess.Popen[bytes], log: Path) -> None:
    """Raise RuntimeError with the end of its log if the process has ended."""
    if (code := process.poll()) is not None:
        raise RuntimeError(f"the job ended with {code}:\n{tail(log)}")


def total_records(table: Table) -> int:
    """The rows of a table's current snapshot, by its summary."""
    head = table.current_snapshot()
    return int(head.summary["total-records"] or 0) if head and head.summary else 0


def check(what: str, found: float, expected: float) -> None:
    """Raise RuntimeError if they differ: figures of other rows compare nothing."""
    if found != expected:
        raise RuntimeError(f"{what}: {found:,.0f}, expected {expected:,.0f}")
