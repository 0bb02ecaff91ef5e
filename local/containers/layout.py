"""What runs in which container, with which files: the embedded stack's programs under other addresses."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from local.containers.profiles import REGISTRY, REST_CATALOG, SPARK
from local.runtime import notifications_file, roles, supervisord
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from local.runtime.supervisord import Program
from local.services import airflow, checks, kafka, minio, observer, postgres, registry, rest_catalog, streams
from local.setup import cache

# The stack directory of every container: on a volume of its own, which `configure` finds in VOLUMES.
HOME = StackDir(Path("/var/lib/sluice"))
VOLUMES = Path("/volumes")
# Service → host name, as docker-compose.yaml calls them.
HOSTS = {
    "postgres": "postgres",
    "kafka": "kafka",
    "minio": "minio",
    "supervisor": "supervisor",
    "airflow": "airflow-api-server",
    streams.TASKS: "airflow-scheduler",
    checks.NAME: "checks",
    observer.NAME: "observer",
    registry.NAME: "registry",
    rest_catalog.PORT: "rest-catalog",
}
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
DRIVES = 4
# The address inside a container: its networks decide who reaches it.
ANY = "0.0.0.0"  # noqa: S104
# The roles of Spark jobs.
JOBS = ("producer", "consumer")
SPARK_MASTER = "spark://spark-master:7077"


@dataclass(frozen=True)
class Volume:
    """The files of one container, by absolute path in it, and its start scripts by name."""

    name: str
    files: Mapping[Path, str]
    scripts: Mapping[str, str] = field(default_factory=dict)


def context(
    secrets: Mapping[str, str],
    chosen: frozenset[str],
    url: str,
    java_home: Path,
    home: StackDir = HOME,
    notifications: str | None = None,
) -> Context:
    """The stack as its containers see it. `url`: Airflow's address for browsers."""
    network = Network(
        DEFAULTS,
        bind=ANY,
        hosts=HOSTS,
        brokers=BROKERS if "cluster" in chosen else (),
    )
    return Context(
        home=home,
        network=network,
        secrets=secrets,
        python_env=cache.environment().path,
        spark_jars=cache.jars("spark").path,
        spark_classes=cache.spark_classes(java_home).path,
        kafka_jars=cache.jars("kafka").path,
        minio=cache.minio().path,
        java_home=java_home,
        registry=cache.registry().path if REGISTRY in chosen else None,
        rest_catalog=cache.jars(rest_catalog.NAME).path if REST_CATALOG in chosen else None,
        airflow_settings={"API__BASE_URL": url},
        is_embedded=False,
        notifications=notifications,
    )


def volumes(stack: Context, chosen: frozenset[str]) -> list[Volume]:
    """The volumes of all services of these profiles."""
    has_registry, has_rest_catalog = stack.registry is not None, stack.rest_catalog is not None
    documents = roles.documents(
        stack.home,
        stack.network,
        stack.secrets,
        registry=has_registry,
        rest_catalog=has_rest_catalog,
    )
    made = [postgres_volume(stack), minio_volume(stack, "erasure" in chosen), _streams(stack, documents)]
    made += [kafka_volume(stack, number) for number in range(1, len(stack.network.nodes) + 1)]
    submitting = replace(stack, spark_master=SPARK_MASTER) if SPARK in chosen else stack
    made += _airflow(submitting, documents)
    made += [_checks(stack, documents), _observer(stack, documents)]
    if SPARK in chosen:
        made.append(_spark(submitting, documents))
    if has_registry:
        made.append(registry_volume(stack))
    if has_rest_catalog:
        made.append(rest_catalog_volume(stack))
    return made


def postgres_volume(stack: Context, clients: str = "samenet") -> Volume:
    """`clients`: the addresses that may connect, as pg_hba.conf has them; with a password only."""
    target = postgres.Installation(Path("/usr/lib/postgresql/15/bin"), stack.home.data, None)
    access, password = stack.home.conf / "pg_hba.conf", stack.home.conf / "initdb.password"
    part = target.data.with_name("postgres.part")
    once = Once(
        target.data,
        # Renamed only when complete: an interrupted initdb is repeated.
        (
            ("rm", "-rf", str(part)),
            postgres.initdb(target, part, password),
            ("mv", str(part), str(target.data)),
        ),
    )
    return Volume(
        "postgres",
        {
            access: f"host all all {clients} scram-sha-256\n",
            password: stack.secrets["postgres_admin"],
        },
        {"postgres": script(postgres.program(stack, target, hba_file=str(access), jit="off"), once)},
    )


def kafka_volume(stack: Context, number: int) -> Volume:
    node = replace(stack, network=replace(stack.network, node=number))
    once = Once(kafka.formatted(node), (kafka.formatting(node),))
    name = node.network.nodes[number - 1]
    return Volume(name, kafka.files(node), {"kafka": script(kafka.program(node), once)})


def minio_volume(stack: Context, erasure: bool = False) -> Volume:
    drives = [stack.home.data / f"drive-{number}" for number in range(1, DRIVES + 1)] if erasure else []
    return Volume("minio", minio.files(stack), {"minio": script(minio.program(stack, drives))})


def registry_volume(stack: Context) -> Volume:
    program = registry.program(stack)
    return Volume(registry.NAME, registry.files(stack), {program.name: script(program)})


def rest_catalog_volume(stack: Context) -> Volume:
    program = rest_catalog.program(stack)
    return Volume(rest_catalog.NAME, rest_catalog.files(stack), {program.name: script(program)})


def _airflow(stack: Context, documents: Mapping[str, roles.Document]) -> list[Volume]:
    """The scheduler's, whose tasks submit jobs and delete files, and that of Airflow's other components."""
    scripts = {program.name: script(program) for program in airflow.programs(stack)}
    scheduler = {"airflow-scheduler": scripts.pop("airflow-scheduler")}
    files, tasks = airflow.files(stack) | notifications_file.files(stack), ("airflow", *JOBS, "maintenance")
    return [
        Volume("airflow", files | platform(stack, documents, ("airflow",)), scripts),
        Volume("scheduler", files | streams.files(stack) | platform(stack, documents, tasks), scheduler),
    ]


def _checks(stack: Context, documents: Mapping[str, roles.Document]) -> Volume:
    program = checks.program(stack)
    return Volume(
        checks.NAME, checks_platform(stack.home.platform, documents), {program.name: script(program)}
    )


def _observer(stack: Context, documents: Mapping[str, roles.Document]) -> Volume:
    program = observer.program(stack)
    return Volume(
        observer.NAME, platform(stack, documents, (observer.NAME,)), {program.name: script(program)}
    )


def checks_platform(folder: Path, documents: Mapping[str, roles.Document]) -> dict[Path, str]:
    """Return the part of role airflow's platform file that the process reads: no login is in it."""
    return roles.files(folder, {"airflow": {"metrics": documents["airflow"]["metrics"]}})


def _streams(stack: Context, documents: Mapping[str, roles.Document]) -> Volume:
    conf, network = stack.home.conf / "supervisord.conf", stack.network
    text = supervisord.render(
        # Not on all networks that it is in.
        streams.programs(stack),
        stack.home.root,
        network.address("supervisor"),
        stack.secrets["supervisor"],
    )
    command = [str(stack.python), "-m", "supervisor.supervisord", "--nodaemon", "-c", str(conf)]
    daemon = Program("streams", command, stack.environment(), priority=50, directory=stack.home.root)
    return Volume(
        "streams",
        {conf: text} | streams.files(stack) | platform(stack, documents, JOBS),
        {"streams": script(daemon)},
    )


def _spark(stack: Context, documents: Mapping[str, roles.Document]) -> Volume:
    environment = stack.job_environment() | {"SPARK_DAEMON_MEMORY": "256m"}
    spark_class = str(cache.pyspark(stack.python_env) / "bin" / "spark-class")
    defaults = str(stack.home.conf / "spark" / "spark-defaults.conf")

    def daemon(kind: str, *arguments: str) -> Program:
        main = (f"org.apache.spark.deploy.{kind.lower()}.{kind}", "--properties-file", defaults)
        # Its page stays on loopback (SPARK_LOCAL_IP); each worker is found by the name of its container.
        start = ("sh", "-c", 'SPARK_LOCAL_HOSTNAME=$(hostname) exec "$@"', "sh")
        command = [*start, spark_class, *main, *arguments]
        return Program(f"spark-{kind.lower()}", command, environment, priority=20, directory=stack.home.root)

    work = str(stack.home.tmp)
    daemons = [
        daemon("Master", "--host", "spark-master", "--port", "7077", "--webui-port", "0"),
        daemon("Worker", "--port", "7078", "--webui-port", "0", "--work-dir", work, SPARK_MASTER),
    ]
    return Volume(
        SPARK,
        # An executor's Python opens S3 and Kafka itself.
        streams.files(stack) | platform(stack, documents, JOBS),
        {program.name: script(program) for program in daemons},
    )


def platform(
    stack: Context, documents: Mapping[str, roles.Document], chosen: Sequence[str]
) -> dict[Path, str]:
    return roles.files(stack.home.platform, {role: documents[role] for role in chosen})


@dataclass(frozen=True)
class Once:
    """Commands before the first start: those that make the path `made`."""

    made: Path
    commands: Sequence[Sequence[str]]


def script(program: Program, once: Once | None = None) -> str:
    """A shell script that becomes the program. Its secrets come through the environment, not through argv."""
    lines = ["#!/bin/sh", "# Written by `configure` at each start.", "set -eu", "umask 077"]
    lines.append(f"cd {shlex.quote(str(program.directory))}")
    lines += [f"export {name}={shlex.quote(value)}" for name, value in program.environment.items()]
    if once is not None:
        steps = " && ".join(shlex.join(command) for command in once.commands)
        lines.append(f"if [ ! -e {shlex.quote(str(once.made))} ]; then {steps}; fi")
    lines.append(f'exec {shlex.join(program.command)} "$@"')
    return "\n".join(lines) + "\n"
