"""The embedded stack as an object: for the command line, the demo and the integration tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, load_catalog

from local.base import REPO, UsageError, default_stack_dir
from local.progress import ProgressDisplay, Step
from local.runtime import ports, processes, roles
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.supervisord import Program, Supervisor
from local.services import airflow, kafka, minio, postgres, replay, streams
from local.setup import cache
from local.setup.bootstrap import java_home
from local.stack import health
from local.stack.airflow_api import Airflow
from sluice.io.retry import wait_for
from sluice.io.s3 import connect
from sluice.model.spec import overrides, platform, stream
from sluice.model.spec.platform import ROLES

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Seconds until a service must be healthy: several times what it took on 2 cores with cold disks.
DEADLINES = {"postgres": 60.0, "kafka": 90.0, "minio": 60.0, "replay": 30.0}
AIRFLOW_DEADLINE = 240.0
STOP_SECONDS = 120.0
# How long ports may still be held by what was killed just before.
PORTS_PATIENCE = 10.0


class Stack:
    """One stack in one home. Everything is idempotent; see the methods for what they raise.

    `free_ports`: take free ports instead of the default ones when the home has none yet.
    `dags`: another DAGs folder than the repository's (tests). `feed`: whose feeds its producers read
    (`public`, `replay`); without it what SLUICE_FEED says, or what was kept. `overrides`: a file with other
    values for the streams; without it what SLUICE_STREAM_OVERRIDES names, or what was kept. `java_options`:
    for the stack's JVMs, `airflow_settings`: other ones of Airflow's, as in `SECTION__KEY` (tests).
    """

    def __init__(
        self,
        home: Path | None = None,
        free_ports: bool = False,
        dags: Path | None = None,
        feed: str | None = None,
        overrides: Path | None = None,
        java_options: str = "",
        airflow_settings: Mapping[str, str] | None = None,
    ) -> None:
        self.home = StackDir((home or default_stack_dir()).resolve())
        self._free_ports = free_ports
        self._dags = dags
        self._feed = feed
        self._overrides = overrides
        self._java_options = java_options
        self._airflow_settings = airflow_settings

    # What it is made of.

    @cached_property
    def ports(self) -> dict[str, int]:
        """Ports by service. Raises UsageError for a value that is no port."""
        return ports.choose(self.home.state().get("ports", {}), os.environ, self._free_ports)

    @cached_property
    def secrets(self) -> dict[str, str]:
        """The generated passwords by name; made at first use."""
        return self.home.secrets()

    @property
    def settings(self) -> dict[str, Any]:
        """What is kept between starts: as this object was told, else as the environment says, else as kept.

        Raises UsageError for a wrong one.
        """
        kept = self.home.state()
        return {
            "external": _absolute(os.environ.get("SLUICE_EXTERNAL", kept.get("external"))),
            "dags": str(self._dags or kept.get("dags") or REPO / "dags"),
            "feed": replay.chosen(self._feed or os.environ.get(replay.VARIABLE), kept.get("feed")),
            "overrides": self.overrides,
            "streams": self.streams,
            "java_options": self._java_options or kept.get("java_options", ""),
            "airflow_settings": self._airflow_settings or kept.get("airflow_settings", {}),
        }

    @property
    def overrides(self) -> str | None:
        """The file with other values for the streams."""
        kept = self.home.state().get("overrides")
        return _absolute(self._overrides or os.environ.get(overrides.VARIABLE, kept))

    @property
    def streams(self) -> str:
        """Further folders with streams, as in SLUICE_STREAMS."""
        found = os.environ.get(stream.VARIABLE, self.home.state().get("streams", ""))
        return os.pathsep.join(filter(None, map(_absolute, found.split(os.pathsep))))

    @cached_property
    def context(self) -> Context:
        """What the services are told. Raises UsageError when the set-up was not done, or for a wrong
        setting."""
        for artifact in (
            cache.environment(),
            cache.jars("spark"),
            cache.jars("kafka"),
            cache.minio(),
        ):
            if not artifact.exists():
                raise UsageError(f"{artifact.path} is not there: run make setup")
        settings = self.settings
        return Context(
            home=self.home,
            ports=self.ports,
            secrets=self.secrets,
            python_env=cache.environment().path,
            spark_jars=cache.jars("spark").path,
            kafka_jars=cache.jars("kafka").path,
            minio=cache.minio().path,
            java_home=java_home(),
            external=Path(settings["external"]) if settings["external"] else None,
            dags=Path(settings["dags"]),
            feed=settings["feed"],
            overrides=Path(settings["overrides"]) if settings["overrides"] else None,
            streams=settings["streams"],
            java_options=settings["java_options"],
            airflow_settings=settings["airflow_settings"],
        )

    @cached_property
    def daemon(self) -> Supervisor:
        return Supervisor(self.home, self.ports["supervisor"], self.secrets["supervisor"])

    @property
    def exists(self) -> bool:
        """Whether it was ever started."""
        return self.home.secrets_file.exists()

    # Its life.

    def up(self, board: ProgressDisplay | None = None) -> None:
        """Starts what does not run, and waits until all of it is healthy; fast when it already is.

        Raises UsageError when a port is taken, or a service does not become healthy: with the end of its log.
        """
        with _shown(board) as shown:
            self.home.prepare()
            with self.home.locked():
                self._up(shown)

    def _up(self, board: ProgressDisplay) -> None:
        pid = self.daemon.pid() if self.exists else None
        if pid is None:
            left = processes.end_all(self.home.id)
            if left:
                board.say(f"ended what an earlier stack left behind: {', '.join(left)}")
            ports.check(self.ports, self.served(), PORTS_PATIENCE)
        elif ports.moved(self.home.state().get("ports", {}), self.ports):
            raise UsageError(
                "the stack runs on other ports than the SLUICE_…_PORT variables say: make down first"
            )
        if self.overrides:
            # Before it is kept: a wrong one would be taken by each start that follows.
            overrides.read(self.overrides, stream.names())
        self.home.remember(ports=self.ports, **self.settings)
        renew = self.write_platform_files() and pid is not None
        streams.prepare(self.context)
        airflow.prepare(self.context)
        if pid is None:
            with board.step("preparing") as step:
                postgres.prepare(self.context, board.say)
                if self.context.external is None:
                    step.line("Kafka's storage")
                    kafka.prepare(self.context)
                    minio.prepare(self.context)
            self.daemon.write(self.programs())
            self.daemon.start(self.context.python, self.context.environment())
        elif self.daemon.write(self.programs()):
            board.say(f"changed and started anew: {', '.join(self.daemon.reload())}")
        if pid is not None and self.context.feed == replay.REPLAY and not self._runs(replay.NAME):
            ports.check(self.ports, [replay.NAME], PORTS_PATIENCE)
        self._start_all(board)
        if renew:
            self.renew_producers(board)

    def served(self) -> list[str]:
        """The services whose ports it needs for itself."""
        not_ours = ("kafka", "kafka_controller", "minio") if self.context.external is not None else ()
        idle = () if self.context.feed == replay.REPLAY else (replay.NAME,)
        return [name for name in self.ports if name not in (*not_ours, *idle)]

    def _runs(self, name: str) -> bool:
        return self.daemon.states()[name]["statename"] in ("STARTING", "RUNNING")

    def renew_producers(self, board: ProgressDisplay) -> None:
        """A producer reads its platform file once: one that runs would go on with another feed."""
        found = [
            spec.components["producer"].program for spec in streams.specs() if "producer" in spec.components
        ]
        for name in (name for name in found if self._runs(name)):
            self.daemon.restart(name)
            board.say(f"{name} was started anew: its platform file is another one")

    def programs(self) -> list[Program]:
        """What supervisord is told to keep, whether it runs or not."""
        made = [postgres.program(self.context)]
        if self.context.external is None:
            made += [kafka.program(self.context), minio.program(self.context)]
        made.append(replay.program(self.context))
        return [*made, *streams.programs(self.context), *airflow.programs(self.context)]

    def _start_all(self, board: ProgressDisplay) -> None:
        def database_and_airflow() -> None:
            self._start("postgres", board, lambda step: postgres.provision(self.context))
            with board.step("Airflow's database") as step:
                airflow.migrate(self.context, step)
            with board.step("airflow") as step:
                for name in airflow.COMPONENTS:
                    self.daemon.ensure_started(name)
                for name in airflow.COMPONENTS:
                    health.wait(name, self.context, self.daemon, step, AIRFLOW_DEADLINE)

        jobs: list[Callable[[], None]] = [database_and_airflow]
        if self.context.external is None:
            topics = [spec.topic.name for spec in streams.specs()]
            results = streams.result_topics()
            users = {role: (f"sluice-{role}", self.secrets[f"minio_{role}"]) for role in ROLES}
            jobs += [
                lambda: self._start(
                    "kafka", board, lambda step: kafka.provision(self.context, topics, results)
                ),
                lambda: self._start("minio", board, lambda step: minio.provision(self.context, users)),
            ]
        if self.context.feed == replay.REPLAY:
            jobs.append(lambda: self._start(replay.NAME, board))
        else:
            self.daemon.ensure_stopped(replay.NAME)
        with ThreadPoolExecutor(len(jobs)) as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()

    def _start(self, name: str, board: ProgressDisplay, then: Callable[[Step], None] | None = None) -> None:
        with board.step(name) as step:
            self.daemon.ensure_started(name)
            health.wait(name, self.context, self.daemon, step, DEADLINES[name])
            if then is not None:
                step.line("users and rights")
                then(step)

    def down(self, board: ProgressDisplay | None = None) -> None:
        """Stops everything: gracefully, then hard. Afterwards no process of the stack is left."""
        if not self.exists:
            return
        with _shown(board) as shown, self.home.locked():
            if self.daemon.pid() is None and not processes.stack_processes(self.home.id):
                shown.say("the stack does not run")
                return
            with shown.step("stopping") as step:
                step.line("Airflow first, then the streams, then what they need")
                if not self.daemon.shutdown(STOP_SECONDS):
                    shown.say(f"supervisord was not done after {STOP_SECONDS:.0f} s")
                left = processes.end_all(self.home.id)
            if left:
                shown.say(f"ended by force: {', '.join(left)}")

    def destroy(self, board: ProgressDisplay | None = None) -> None:
        """Stops the stack and removes its home with all its data, for good."""
        self.down(board)
        postgres.remove(self.home)
        if self.home.root.exists():
            shutil.rmtree(self.home.root)
        for name in ("secrets", "ports", "context", "daemon"):
            self.__dict__.pop(name, None)

    def is_running(self) -> bool:
        return self.exists and self.daemon.pid() is not None

    # Ways in, for tests and the demo.

    def airflow(self) -> Airflow:
        """Airflow's REST API as the operator."""
        return Airflow(airflow.url(self.context), airflow.USER, self.secrets["airflow_operator"])

    def platform(self, role: str) -> platform.Platform:
        """The platform as a role sees it."""
        return platform.load(role, {platform.DIRECTORY_VARIABLE: str(self.home.platform)})

    def s3(self, role: str) -> S3Client:
        """boto3's client with a role's rights."""
        return connect(self.platform(role).s3)

    def admin_s3(self) -> S3Client:
        """boto3's client with all rights (embedded MinIO only)."""
        return minio.admin_s3(self.context)

    def kafka(self, role: str) -> dict[str, str]:
        """librdkafka's configuration with a role's rights; `admin` is the superuser (embedded Kafka only)."""
        return kafka.admin_config(self.context) if role == "admin" else self.platform(role).kafka.librdkafka()

    def catalog(self, role: str) -> Catalog:
        """PyIceberg's catalog with a role's rights."""
        found = self.platform(role)
        return load_catalog(platform.CATALOG, **found.lake.pyiceberg(found.s3))

    def supervisor(self) -> Any:
        """supervisord's XML-RPC proxy (its `supervisor` namespace)."""
        return self.daemon.proxy()

    def minio_requests(self) -> dict[str, int]:
        """S3 calls since MinIO's start by API (`PutObject` → 12), counted by MinIO itself, up to now."""
        return minio.requests(self.context)

    def platform_documents(self) -> dict[str, roles.Document]:
        """The platform file of each role, as plain data. Raises UsageError for a wrong external one."""
        replayed = self.context.feed == replay.REPLAY
        feeds = replay.feeds(streams.specs(), self.ports[replay.NAME]) if replayed else {}
        documents = roles.documents(self.home, self.ports, self.secrets, feeds)
        if self.context.external is not None:
            documents = roles.external(documents, self.context.external)
        return documents

    def write_platform_files(self) -> bool:
        """Writes them; says whether one was not as it must be."""
        return roles.write(self.home.platform, self.platform_documents())

    def environment(self) -> dict[str, str]:
        """The environment of the stack's jobs, for running one of them by hand."""
        return self.context.job_environment()


def _absolute(path: str | Path | None) -> str | None:
    return str(Path(path).expanduser().resolve()) if path else None


@contextmanager
def _shown(board: ProgressDisplay | None) -> Iterator[ProgressDisplay]:
    """The caller's display, or one of our own."""
    if board is not None:
        yield board
        return
    with ProgressDisplay() as own:
        yield own


def wait_until(what: str, check: Callable[[], bool], seconds: float, interval: float = 0.5) -> None:
    """Waits until `check` is true. Raises TimeoutError naming `what`."""
    if not wait_for(check, seconds, interval):
        raise TimeoutError(f"{what}: not within {seconds:.0f} s")
