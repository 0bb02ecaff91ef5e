"""The embedded stack as an object: for the command line, the demo and the integration tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from local.base import REPO, UsageError, default_stack_dir
from local.progress import ProgressDisplay
from local.runtime import notifications_file, ports, processes
from local.runtime.context import Context
from local.runtime.home import StackDir, write_files
from local.runtime.ports import Network
from local.runtime.supervisord import Program, Supervisor
from local.services import (
    airflow,
    checks,
    kafka,
    minio,
    observer,
    postgres,
    registry,
    replay,
    rest_catalog,
    streams,
)
from local.setup import cache
from local.setup.bootstrap import java_home
from local.stack import health, optional_services
from local.stack.base import BaseStack
from sluice.clients.polling import wait_for
from sluice.config import notifications, overrides
from sluice.config import streams as stream_files
from sluice.config.folders import VARIABLE

# Seconds until a service must be healthy: several times what it took on 2 cores with cold disks.
DEADLINES = dict.fromkeys(("replay", "checks", "observer"), 30.0) | dict.fromkeys(("postgres", "minio"), 60.0)
DEADLINES |= dict.fromkeys(("kafka", "registry", rest_catalog.NAME), 90.0)
AIRFLOW_DEADLINE = 240.0
STOP_SECONDS = 120.0


class Stack(BaseStack):
    """One stack in one directory. Every method is idempotent.

    `free_ports`: at the first start, free ports instead of the default ones. `dags`: another DAGs folder than
    the repository's (tests). `feed`: `public` or `replay`; default: SLUICE_FEED, else the kept one.
    `overrides`: a file with other values for the streams; default: SLUICE_STREAM_OVERRIDES, else as kept.
    `java_options`: for the stack's JVMs. `airflow_settings`: additional ones, as `SECTION__KEY` (tests).
    `installed`: a folder with the installed package, whose code runs instead of the checkout's (tests).
    `with_airflow`: else `up` starts the other services only (measurements).
    `registry`: `needed` or `always`; default: SLUICE_REGISTRY, else the kept one.
    `catalog`: `sql` or `rest`, how tables are found; default: SLUICE_CATALOG, else the kept one.
    `folder`: one with streams, beside those of SLUICE_STREAMS, else the kept ones.
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
        with_airflow: bool = True,
        installed: Path | None = None,
        registry: str | None = None,
        catalog: str | None = None,
        folder: Path | None = None,
    ) -> None:
        self.home = StackDir((home or default_stack_dir()).resolve())
        self._free_ports = free_ports
        self._dags = dags
        self._feed = feed
        self._overrides = overrides
        self._java_options = java_options
        self._airflow_settings = airflow_settings
        self._with_airflow = with_airflow
        self._installed = installed
        self._registry = registry
        self._catalog = catalog
        self._folder = folder

    @cached_property
    def ports(self) -> dict[str, int]:
        """Ports by service. Raises UsageError for an invalid one."""
        return ports.choose(self.home.state().get("ports", {}), os.environ, self._free_ports)

    @cached_property
    def secrets(self) -> dict[str, str]:
        return self.home.secrets()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that are kept between starts: the constructor's, else the environment's, else the kept
        ones. Raises UsageError for an invalid one."""
        kept = self.home.state()
        return {
            "external": _absolute(os.environ.get("SLUICE_EXTERNAL", kept.get("external"))),
            "dags": str(self._dags or kept.get("dags") or REPO / "dags"),
            "feed": replay.chosen(self._feed or os.environ.get(replay.VARIABLE), kept.get("feed")),
            "overrides": self.overrides,
            "notifications": _absolute(os.environ.get(notifications.VARIABLE, kept.get("notifications"))),
            "streams": self.streams,
            "installed": _absolute(self._installed or kept.get("installed")),
            "airflow_history_days": os.environ.get(
                airflow.DAYS_VARIABLE, kept.get("airflow_history_days", "")
            ),
            "java_options": self._java_options or kept.get("java_options", ""),
            "airflow_settings": self._airflow_settings or kept.get("airflow_settings", {}),
        }

    @property
    def overrides(self) -> str | None:
        kept = self.home.state().get("overrides")
        return _absolute(self._overrides or os.environ.get(overrides.VARIABLE, kept))

    @property
    def streams(self) -> str:
        """Additional folders with streams, as in SLUICE_STREAMS."""
        folders = os.environ.get(VARIABLE, self.home.state().get("streams", "")).split(os.pathsep)
        # A demo that runs again adds nothing.
        known = dict.fromkeys(map(_absolute, [*folders, self._folder or ""]))
        return os.pathsep.join(filter(None, known))

    @cached_property
    def context(self) -> Context:
        """Raises UsageError if an artifact is missing, or for an invalid setting."""
        java = java_home()
        artifacts = {
            "python_env": cache.environment(),
            "spark_jars": cache.jars("spark"),
            "spark_classes": cache.spark_classes(java),
            "kafka_jars": cache.jars("kafka"),
            "minio": cache.minio(),
        }
        if optional_services.has_registry(self.home):
            artifacts["registry"] = cache.registry()
        if optional_services.has_rest_catalog(self.home):
            artifacts["rest_catalog"] = cache.jars(rest_catalog.NAME)
        for artifact in artifacts.values():
            if not artifact.exists():
                raise UsageError(f"{artifact.path} is missing. Fix: run make setup")
        paths: dict[str, Any] = {name: artifact.path for name, artifact in artifacts.items()}
        return Context(self.home, Network(self.ports), self.secrets, java_home=java, **paths, **self.settings)

    @cached_property
    def daemon(self) -> Supervisor:
        return Supervisor(self.home, self.ports["supervisor"], self.secrets["supervisor"])

    @property
    def exists(self) -> bool:
        """Whether it was ever started."""
        return self.home.secrets_file.exists()

    def up(self, board: ProgressDisplay | None = None) -> None:
        """Start the services that do not run, and wait until all are healthy.

        Raises UsageError if a port is taken, or a service does not become healthy: with the end of its log.
        """
        with _display(board) as display:
            self.home.prepare()
            with self.home.locked():
                self._up(display)

    def _up(self, board: ProgressDisplay) -> None:
        declared = stream_files.load_valid()
        registered = (spec.uses_registry for spec in declared.specs)
        optional_services.decide_registry(self.home, self.settings["external"], registered, self._registry)
        pid = self.daemon.pid() if self.exists else None
        external = self.settings["external"]
        optional_services.decide_catalog(self.home, external, pid is not None, self._catalog)
        self.__dict__.pop("context", None)
        if pid is None:
            left = processes.end_all(self.home.id)
            if left:
                board.say(f"ended processes of an earlier stack: {', '.join(left)}")
            ports.check(self.ports, self.served(), optional_services.PORTS_SECONDS)
        elif ports.moved(self.home.state().get("ports", {}), self.ports):
            raise UsageError(
                "the stack runs on other ports than the SLUICE_…_PORT variables set. Fix: make down first"
            )
        if self.overrides:
            # Before it is kept: every later start would use an invalid one.
            overrides.check(self.overrides, stream_files.names())
        for reason in declared.reasons:
            # The other streams are started.
            board.say(reason)
        of_notifications = notifications_file.files(self.context)
        self.home.remember(ports=self.ports, **self.settings)
        has_new_files = self.write_platform_files() and pid is not None
        # Read by each task: nothing is restarted.
        write_files(of_notifications)
        streams.prepare(self.context)
        optional_services.prepare(self.context)
        write_files(airflow.files(self.context))
        if self.context.external is None:
            # Also of a stack that runs: its program may be an older version's, which had a variable.
            minio.prepare(self.context)
        if pid is None:
            # Not of a stack that runs: another number restarts the database below everything.
            self.home.remember(connections=streams.connections(declared.specs))
            with board.step("preparing") as step:
                postgres.prepare(self.context, board.say)
                if self.context.external is None:
                    step.line("Kafka's storage")
                    kafka.prepare(self.context)
            self.daemon.write(self.programs())
            self.daemon.start(self.context.python, self.context.environment())
        else:
            if self.daemon.write(self.programs()):
                board.say(f"changed and restarted: {', '.join(self.daemon.reload())}")
            optional_services.check_ports(self.context, self._runs)
        self._start_all(board)
        if has_new_files:
            self.restart_producers(board)

    def served(self) -> list[str]:
        """The services whose ports must be free."""
        not_ours = ("kafka", "kafka_controller", "minio") if self.context.external is not None else ()
        idle = optional_services.idle_ports(self.context)
        return [name for name in self.ports if name not in {*not_ours, *idle}]

    def _runs(self, name: str) -> bool:
        return self.daemon.states()[name]["statename"] in ("STARTING", "RUNNING")

    def restart_producers(self, board: ProgressDisplay) -> None:
        """Restart running producers: they read their platform file only at the start."""
        for component in (spec.components.get("producer") for spec in stream_files.load_valid().specs):
            if component is not None and self._runs(component.program):
                self.daemon.restart(component.program)
                board.say(f"{component.program} was restarted: its platform file changed")

    def programs(self) -> list[Program]:
        """All programs of the stack, running or not."""
        connections = self.home.state().get("connections")
        kept = {"max_connections": str(connections)} if connections else {}
        services = [postgres.program(self.context, postgres.installation(self.context), **kept)]
        if self.context.external is None:
            services += [kafka.program(self.context), minio.program(self.context)]
        services += [*optional_services.programs(self.context), checks.program(self.context)]
        services.append(observer.program(self.context))
        return [*services, *streams.programs(self.context), *airflow.programs(self.context)]

    def _start_all(self, board: ProgressDisplay) -> None:
        provisioning = self.provisioning()

        def database_and_airflow() -> None:
            self._start("postgres", board, provisioning["postgres"])
            if self.context.rest_catalog is not None:
                # Before Airflow, whose first tasks may ask it.
                self._start(rest_catalog.NAME, board)
            if self.context.registry is not None:
                # Beside Airflow, which takes longer.
                self.daemon.ensure_started(registry.NAME)
            if self._with_airflow:
                airflow_up()
            if self.context.registry is not None:
                self._start(registry.NAME, board)

        def airflow_up() -> None:
            with board.step("Airflow's database") as step:
                airflow.prepare(self.context, step)
            with board.step("airflow") as step:
                for name in airflow.COMPONENTS:
                    self.daemon.ensure_started(name)
                self.daemon.ensure_started(airflow.CLEANUP)
                for name in airflow.COMPONENTS:
                    health.wait(name, self.context, self.daemon, step, AIRFLOW_DEADLINE)

        # The observer needs no system to begin: it says of each which does not answer.
        jobs: list[Callable[[], None]] = [database_and_airflow]
        jobs += [partial(self._start, name, board) for name in (checks.NAME, observer.NAME)]
        jobs += [
            partial(self._start, name, board, then)
            for name, then in provisioning.items()
            if name != "postgres"
        ]
        if self.context.feed == replay.REPLAY:
            jobs.append(lambda: self._start(replay.NAME, board))
        else:
            self.daemon.ensure_stopped(replay.NAME)
        with ThreadPoolExecutor(len(jobs)) as pool:
            for future in [pool.submit(job) for job in jobs]:
                future.result()

    def _start(self, name: str, board: ProgressDisplay, then: Callable[[], None] | None = None) -> None:
        with board.step(name) as step:
            self.daemon.ensure_started(name)
            health.wait(name, self.context, self.daemon, step, DEADLINES[name])
            if then is not None:
                step.line("users and rights")
                then()

    def down(self, board: ProgressDisplay | None = None) -> None:
        """Stop all processes of the stack: gracefully, then by force."""
        if not self.exists:
            return
        with _display(board) as display, self.home.locked():
            if self.daemon.pid() is None and not processes.stack_processes(self.home.id):
                display.say("the stack does not run")
                return
            with display.step("stopping") as step:
                step.line("Airflow, then the streams, then the services")
                if not self.daemon.shutdown(STOP_SECONDS):
                    display.say(f"supervisord still ran after {STOP_SECONDS:.0f} s")
                left = processes.end_all(self.home.id)
            if left:
                display.say(f"ended by force: {', '.join(left)}")

    def destroy(self, board: ProgressDisplay | None = None) -> None:
        """Stop the stack and remove its directory with all its data."""
        self.down(board)
        postgres.remove(self.home)
        if self.home.root.exists():
            shutil.rmtree(self.home.root)
        for name in ("secrets", "ports", "context", "daemon"):
            self.__dict__.pop(name, None)

    def next_steps(self, figures: Path, query: str) -> str:
        return f"Figures: {figures.relative_to(REPO)}   Rows: local/run sql '{query}'"

    def is_running(self) -> bool:
        return self.exists and self.daemon.pid() is not None


def _absolute(path: str | Path | None) -> str | None:
    return str(Path(path).expanduser().resolve()) if path else None


def _display(board: ProgressDisplay | None) -> AbstractContextManager[ProgressDisplay]:
    return ProgressDisplay() if board is None else nullcontext(board)


def wait_until(what: str, check: Callable[[], bool], seconds: float, interval: float = 0.5) -> None:
    """Wait until `check` is true. Raises TimeoutError naming `what`."""
    if not wait_for(check, seconds, interval):
        raise TimeoutError(f"{what}: not within {seconds:.0f} s")
