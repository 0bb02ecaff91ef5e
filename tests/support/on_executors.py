"""A stream's batch on a standalone cluster of two workers, in a process of its own: one has one Spark.

``python -m tests.support.on_executors <folder>`` sends a topic of which one partition has nearly all records,
publishes it by the direct path, and prints what happened as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import pyspark
from pyspark.sql import SparkSession

from local.runtime.ports import HOST, free_ports, free_range
from local.services import streams
from local.stack.stack import wait_until
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.direct import batch
from tests.support.lakehouse import Stream
from tests.support.services import Services

# Records of partition 0 and 1; one task of the second partition's size would be enough for it.
SENT = {0: 60_000, 1: 50}
RECORDS_PER_TASK = 5_000
WORKERS = 2
REPO = Path(__file__).resolve().parents[2]


@contextmanager
def daemon(kind: str, log: Path, environment: dict[str, str], arguments: Sequence[str]) -> Iterator[None]:
    home = Path(next(iter(pyspark.__path__)))
    main = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", main, *arguments], env=environment, stdout=out, stderr=out
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def cluster(folder: Path, environment: dict[str, str]) -> Iterator[str]:
    """Its master's address."""
    (port,) = free_ports(1, set(), free_range(os.environ))
    master = f"spark://{HOST}:{port}"
    environment = environment | {"SPARK_DAEMON_MEMORY": "256m"}
    with ExitStack() as daemons:
        log = folder / "master.log"
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
        daemons.enter_context(daemon("Master", log, environment, arguments))
        wait_until("the master", lambda: is_listening(port), 60, 0.2)
        for number in range(WORKERS):
            work, own = folder / f"work-{number}", folder / f"worker-{number}.log"
            options = ["--host", HOST, "--webui-port", "0", "-c", "1", "-m", "1g", "--work-dir", str(work)]
            daemons.enter_context(daemon("Worker", own, environment, [*options, master]))
        yield master


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def tasks_of(spark: SparkSession) -> dict[str, int]:
    """Executor -> number of its tasks."""
    found = cast("Any", spark.sparkContext)._jsc.sc().statusStore().executorList(False)
    executors = [found.apply(number) for number in range(found.size())]
    return {str(one.id()): int(one.totalTasks()) for one in executors if one.id() != "driver"}


def publish(services: Services, master: str, folder: Path) -> dict[str, Any]:
    defaults = dict(
        line.split(" ", 1) for line in streams.spark_defaults(services.stack.context).splitlines()
    )
    builder = SparkSession.builder.appName("on executors").master(master)
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    for key, value in (defaults | {"spark.sql.extensions": extensions}).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.executor.memory", "600m").config("spark.task.maxFailures", "1")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    stream = Stream(spark, services, "on_executors", str(folder / "checkpoints"))
    records = {partition: [b"text"] * count for partition, count in SENT.items()}
    services.send(stream.spec.topic.name, records)
    wait_until("the executors", lambda: len(tasks_of(spark)) == WORKERS, 120, 0.5)
    before = tasks_of(spark)
    writer = stream.writer()
    stream.run(writer).query.stop()
    tasks = {executor: count - before.get(executor, 0) for executor, count in tasks_of(spark).items()}
    files = len(writer.table.added_paths(writer.published))
    expected = Counter((partition, offset) for partition, count in SENT.items() for offset in range(count))
    assert Counter(stream.record_offsets()) == expected
    stream.stop()
    spark.stop()
    return {"tasks": tasks, "files": files}


def main(folder: Path) -> None:
    writer_module.SMALL_BATCH = 1
    batch.RECORDS_PER_TASK = RECORDS_PER_TASK
    services = Services(folder)
    try:
        services.kafka, services.minio, services.postgres  # noqa: B018
        streams.prepare(services.stack.context)
        environment = services.stack.context.job_environment()
        # Executors have the tests' own modules, too.
        environment["PYTHONPATH"] = os.pathsep.join([str(REPO), environment["PYTHONPATH"]])
        os.environ.update(environment)
        with cluster(folder, environment) as master:
            print(json.dumps(publish(services, master, folder)))
    finally:
        services.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
