"""The streams' components as supervised programs. Airflow starts them, not `make up`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from local.runtime.context import Context, with_parent
from local.runtime.home import write_files
from local.runtime.supervisord import STREAM_OPTIONS, Program
from local.setup.cache import ARCHIVE, spark_class_path
from sluice.config import stream, streams
from sluice.config.stream import StreamSpec
from sluice.connection_check.needs import results

_LOG4J = """\
status = warn
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%ex
# Reports every nullable Avro column; a null in another column fails anyway.
logger.avro.name = org.apache.spark.sql.avro.AvroSerializer
logger.avro.level = error
# Hadoop's native codecs are not used.
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
"""


def result_topics() -> list[str]:
    """The topics to which queries of valid streams send their results."""
    return results(streams.load_valid().specs)


# Connections of PostgreSQL: those of Airflow's processes and tasks, the observer, the registry and the REST
# catalog; a stream's, whose consumer and producer have two of each JVM's catalog and one of Python's at most;
# and a query's, whose session has a catalog of its own, and a sink.
_OTHERS, _STREAM, _QUERY = 100, 5, 3


def connections(specs: Iterable[StreamSpec]) -> int:
    """What these streams take of PostgreSQL if all of them run at once. A stream that stands still takes
    none, and the server's memory follows those that are open."""
    return _OTHERS + sum(_STREAM + _QUERY * len(spec.queries) for spec in specs)


# Java's second compiler works on code that is called 30 times as often as by default: during a start, and in
# a batch of a new process, it took more CPU seconds than its code saved. A loop of millions still gets there.
COMPILER = " ".join(
    f"-XX:Tier4{name}Threshold={30 * default}"
    for name, default in {
        "Invocation": 5000,
        "MinInvocation": 600,
        "Compile": 15000,
        "BackEdge": 40000,
    }.items()
)


def archive_options(spark_classes: Path) -> str:
    """Start a JVM with Spark's classes from their archive. Where that does not fit, the JVM starts without it
    and says so on stderr, since stdout belongs to the job."""
    return f"-XX:SharedArchiveFile={spark_classes / ARCHIVE} -Xlog:disable -Xlog:all=warning:stderr"


# Where Airflow's tasks run, and their Spark drivers.
TASKS = "tasks"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def _on_cluster(context: Context) -> dict[str, str]:
    """Executors in other containers reach the driver by its host's name, and authenticate themselves."""
    return {
        "spark.driver.host": context.network.host(TASKS),
        "spark.driver.bindAddress": context.network.bind,
        "spark.authenticate": "true",
        "spark.authenticate.secret": context.secrets["spark"],
        "spark.network.crypto.enabled": "true",
    }


def spark_defaults(context: Context) -> str:
    """Spark's configuration for producers and consumers."""
    settings = {
        **(_on_cluster(context) if context.spark_master.startswith("spark://") else _LOOPBACK),
        "spark.driver.extraClassPath": spark_class_path(context.python_env, context.spark_jars),
        "spark.executor.extraClassPath": spark_class_path(context.python_env, context.spark_jars),
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(context.home.tmp / "spark"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(context.home.tmp / "spark-warehouse"),
        "spark.driver.extraJavaOptions": f"-XX:+UseParallelGC {COMPILER} "
        f"{archive_options(context.spark_classes)} "
        f"-Dlog4j2.configurationFile={context.home.conf / 'spark' / 'log4j2.properties'} "
        f"{context.java_options}".rstrip(),
    }
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def files(context: Context) -> dict[Path, str]:
    """Spark's configuration folder."""
    folder = context.home.conf / "spark"
    return {
        folder / "spark-defaults.conf": spark_defaults(context),
        folder / "log4j2.properties": _LOG4J,
    }


def prepare(context: Context) -> None:
    """Write Spark's configuration folder."""
    write_files(files(context))
    (context.home.tmp / "spark").mkdir(exist_ok=True)


def restarted(python: Path, *command: str | os.PathLike[str]) -> list[str]:
    """The command under a parent process that restarts it, and whose death kills it."""
    # KILL: a hung component would survive TERM, and run beside its successor.
    component = with_parent(*command, signal="KILL")
    return with_parent(python, "-S", "-m", "sluice.clients.processes.parent", *component)


def programs(context: Context) -> list[Program]:
    """One program per component; supervisord stops them after Airflow and before the services.

    An invalid stream may have any: one that runs is not to be ended because its declaration was changed.
    """
    declared = {spec.name: spec.components.values() for spec in streams.load_valid().specs}
    every = {name: [stream.component(name, one) for one in stream.COMPONENTS] for name in streams.names()}
    return [
        Program(
            component.program,
            restarted(context.python, context.python, *component.arguments),
            context.job_environment(),
            priority=50,
            directory=context.directory,
            options=STREAM_OPTIONS,
        )
        for components in (every | declared).values()
        for component in components
    ]
