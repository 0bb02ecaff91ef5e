"""The stack of a comparison: its source objects and topics, and the jobs that run on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka.admin import AdminClient, NewTopic

from bench.compare.figures import Figures
from bench.compare.meter import Meter, S3Calls
from bench.compare.records import PARTITIONS, Declared, sample_rows
from local.base import REPO
from local.runtime.roles import SOURCE, WAREHOUSE
from local.runtime.supervisord import Program
from local.services import kafka, minio
from local.stack.stack import Stack
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.s3.objects import Bucket
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.reading.files import write_private
from sluice.config.sections.topic import PROGRESS_TOPIC
from sluice.config.stream import StreamSpec

# The longest phase of a contender: an hour is more than any takes at scale 1.
LIMIT_SECONDS = 3600.0
SERVICES = ("kafka", "minio", "postgres")


class BenchStack:
    """A stack and its measured jobs. ``folder`` is removed at the end."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack, self.folder = stack, folder
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        BrokerTopics(self.kafka_admin()).provision(PROGRESS_TOPIC)

    def kafka_admin(self) -> KafkaAdmin:
        """Not kept: a client that outlives the broker logs every second that it is gone."""
        return KafkaAdmin(self.stack.platform("airflow").kafka)

    @property
    def environment(self) -> dict[str, str]:
        return self.stack.context.job_environment()

    def spec(self, name: str) -> StreamSpec:
        """The stream, with its topic created, unless it is one of others."""
        spec = streams.load(name)
        if spec.topic.managed:
            BrokerTopics(self.kafka_admin()).provision(spec.topic)
        return spec

    def make_topic(self, name: str) -> None:
        admin = AdminClient({**kafka.admin_config(self.stack.context), "log_level": 0})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)

    def records(self, topic: str) -> int:
        return sum(after - first for first, after in topic_offsets(self.superuser(), topic).values())

    def ends(self, topic: str) -> dict[int, int]:
        """Partition -> the offset of the next record."""
        return {partition: after for partition, (_, after) in topic_offsets(self.superuser(), topic).items()}

    def superuser(self) -> Kafka:
        config = kafka.admin_config(self.stack.context)
        return Kafka(
            config["bootstrap.servers"],
            *(config["security.protocol"], config["sasl.mechanism"]),
            *(config["sasl.username"], config["sasl.password"]),
        )

    def put_objects(self, prefix: str, rows: int, objects: int) -> int:
        """Store ``rows`` rows, the sample's repeated, in CSV objects of one size; give their number."""
        header, *lines = sample_rows()
        source, each = cycle(lines), rows // objects
        client = self.stack.admin_s3()
        for number in range(objects):
            body = "\n".join([header, *islice(source, each), ""])
            client.put_object(Bucket=SOURCE, Key=f"{prefix}{number:03}.csv", Body=body.encode())
        return each * objects

    def services(self) -> dict[str, int]:
        """Service -> its process id."""
        proxy = self.stack.daemon.proxy()
        return {name: int(proxy.getProcessInfo(name)["pid"]) for name in SERVICES}

    def run(self, command: Sequence[str | Path], name: str, rows: int) -> Figures:
        """Run a job to its end. Raises RuntimeError with the end of its log if it fails."""
        calls, began = S3Calls(self.stack), time.time()
        with self.started(command, name) as (process, meter, log):
            code = process.wait(LIMIT_SECONDS)
            ended = time.time()
        if code != 0:
            raise RuntimeError(f"{name} ended with {code}:\n{tail(log)}")
        return phase(meter, rows, began, ended) | calls.figures()

    @contextmanager
    def started(
        self, command: Sequence[str | Path], name: str
    ) -> Iterator[tuple[subprocess.Popen[bytes], Meter, Path]]:
        """Run a job, measured, until the end of ``with``; give its process, its meter and its log."""
        process = self.spawn(command, name)
        try:
            with Meter({"job": process.pid, **self.services()}) as meter:
                yield process, meter, self.log(name)
        finally:
            end(process)

    def spawn(self, command: Sequence[str | Path], name: str) -> subprocess.Popen[bytes]:
        """Start a job, whose output is appended to its log."""
        with self.log(name).open("ab") as out:
            return subprocess.Popen(
                [os.fspath(part) for part in command],
                env=self.environment,
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def log(self, name: str) -> Path:
        """Where the job of that name writes."""
        return self.logs / f"{name}.log"

    def stored(self, prefix: str) -> Figures:
        """The versions below a prefix of the warehouse's bucket, and the data files among them."""
        entries = list(Bucket(self.stack.admin_s3(), WAREHOUSE).entries(prefix))
        files = [e for e in entries if e.key.endswith(".parquet") and e.is_latest and not e.is_delete_marker]
        return {
            "versions": float(sum(not entry.is_delete_marker for entry in entries)),
            "delete_markers": float(sum(entry.is_delete_marker for entry in entries)),
            "data_files": float(len(files)),
            "data_megabytes": round(sum(file.size for file in files) / 1e6, 3),
        }

    def table_prefix(self, spec: StreamSpec) -> str:
        location = self.stack.lake("airflow").table(spec.table).location()
        return urlsplit(location).path.strip("/") + "/"

    def s3a(self) -> dict[str, str]:
        """Spark's configuration of s3a:// with all rights: the plain way renames and deletes."""
        return {
            "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "fs.s3a.access.key": minio.ROOT_USER,
            "fs.s3a.secret.key": self.stack.secrets["minio_root"],
            "fs.s3a.endpoint": minio.url(self.stack.context),
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
        }

    def write_settings(self, name: str, settings: Mapping[str, Any]) -> Path:
        path = self.folder / f"{name}.json"
        write_private(path, json.dumps(settings, indent=2))
        return path


def phase(meter: Meter, rows: int, began: float, ended: float) -> Figures:
    """What a job and the services spent between two moments."""
    spent = {name: meter.spent(name, began, ended) for name in ("job", *SERVICES)}
    seconds, total = ended - began, sum(spent.values())
    services = {f"{name}_cpu_seconds": round(spent[name], 2) for name in SERVICES}
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(spent["job"], 2),
        **services,
        "rows_per_second": round(rows / seconds),
        "rows_per_cpu_second": round(rows / max(spent["job"], 0.01)),
        "rows_per_cpu_second_of_all": round(rows / max(total, 0.01)),
        "memory_megabytes": round(meter.megabytes["job"]),
    }


def end(process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    """TERM, then KILL after ``seconds``."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tail(log: Path, characters: int = 4000) -> str:
    return log.read_text(errors="replace")[-characters:]


class IdleStack(Stack):
    """A stack whose streams have idle consumers instead of Spark's."""

    def programs(self) -> list[Program]:
        return [replace(program, command=idle(program.command)) for program in super().programs()]


def idle(command: Sequence[str]) -> list[str]:
    """A consumer's command with ``bench/compare/contenders/idle_consumer.py``; any other command as it is."""
    words = list(command)
    if words[-4:-1] == ["-m", "spark_jobs", "consumer"]:
        words[-4:-1] = ["-m", "bench.compare.contenders.idle_consumer"]
    return words


@contextmanager
def bench_stack(declared: Sequence[Declared], supervised: bool = False) -> Iterator[BenchStack]:
    """A new stack with these streams, which is removed at the end. ``supervised``: with Airflow, which
    elsewhere would take the CPU that is compared, and with idle consumers."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    folder = home / "streams"
    folder.mkdir()
    for one in declared:
        one.write(folder)
    os.environ[VARIABLE] = str(folder)
    kind = IdleStack if supervised else Stack
    stack = kind(home / "stack", free_ports=True, with_airflow=supervised)
    try:
        stack.up()
        os.environ[platforms.DIRECTORY_VARIABLE] = str(stack.home.platform)
        yield BenchStack(stack, home)
    finally:
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)
