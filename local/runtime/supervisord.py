"""supervisord's configuration, and its control through XML-RPC."""

from __future__ import annotations

import http.client
import shlex
import subprocess
import xmlrpc.client
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults

from local.base import UsageError
from local.runtime.home import StackDir
from local.runtime.ports import HOST
from sluice.clients.polling import wait_for
from sluice.clients.processes.supervisord import connect
from sluice.config.platform_sections import supervisor
from sluice.config.reading.files import write_private


@dataclass(frozen=True)
class Program:
    """A supervised program. supervisord starts none of them by itself: `make up` starts services in the order
    of their dependencies, Airflow starts the streams."""

    name: str
    """Its section `[program:…]`, and its log `<name>.log`."""
    command: Sequence[str]
    """Words, unquoted."""
    environment: Mapping[str, str]
    """Added to that of supervisord."""
    priority: int
    """Lower starts first and stops last."""
    directory: Path
    """Its working directory."""
    options: Mapping[str, str] = field(default_factory=lambda: SERVICE_OPTIONS)
    """Further keys of its section."""


# A component of a stream: stopped gracefully through its parent process (clients.processes.parent) and its
# Python, since a JVM that gets the signal too would die during the query's shutdown.
STREAM_OPTIONS = {
    # The parent process restarts the component. A parent process that was killed, and its component with it,
    # is restarted itself. Its own exits: stopped, failed, fenced, configuration, and no program to run.
    "autorestart": "unexpected",
    "exitcodes": "0,1,2,76,78,126,127",
    # The component's output is on stdout, the parent process's reports on stderr. That log is not rotated (it
    # grows by 1 KB per restart): supervisord rotates after a write, which would lose the newest report.
    "redirect_stderr": "false",
    "stderr_logfile_maxbytes": "0",
    # 0: else supervisord retries what exits sooner, despite autorestart, and forgets its exit status.
    "startsecs": "0",
    "startretries": "0",
    "stopsignal": "TERM",
    "stopasgroup": "false",
    "killasgroup": "true",
    # Then it is killed, which loses nothing: unpublished offsets are read again. Longer than a usual batch,
    # and short, because a hung component never ends by itself.
    "stopwaitsecs": "10",
}
SERVICE_OPTIONS: Mapping[str, str] = {
    "autorestart": "true",
    "startsecs": "2",
    "startretries": "5",
    "stopsignal": "TERM",
    "stopasgroup": "false",
    "killasgroup": "true",
    "stopwaitsecs": "30",
}


def render(programs: Sequence[Program], root: Path, listener: str, password: str) -> str:
    """supervisord.conf: the daemon, its XML-RPC server on `listener` (host:port), one section per program."""
    logs = root / "logs"
    sections = [
        _section(
            "supervisord",
            {
                "logfile": _text(str(logs / "supervisord.log")),
                "logfile_maxbytes": "5MB",
                "logfile_backups": "2",
                "pidfile": _text(str(root / "supervisord.pid")),
                "childlogdir": _text(str(logs)),
                "minfds": "1024",
                "nocleanup": "true",
            },
        ),
        _section(
            "inet_http_server",
            {"port": listener, "username": "sluice", "password": _text(password)},
        ),
        _section(
            "rpcinterface:supervisor",
            {"supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"},
        ),
    ]
    for program in programs:
        log = {
            "stdout_logfile": _text(str(logs / f"{program.name}.log")),
            "stdout_logfile_maxbytes": "20MB",
            "stdout_logfile_backups": "2",
            "redirect_stderr": "true",
        }
        keys = {
            "command": _text(shlex.join(program.command)),
            "directory": _text(str(program.directory)),
            "environment": ",".join(
                f"{name}={_quoted(value)}" for name, value in program.environment.items()
            ),
            "priority": str(program.priority),
            "autostart": "false",
            **log,
            **program.options,
        }
        if keys["redirect_stderr"] == "false":
            keys["stderr_logfile"] = _text(str(logs / f"{program.name}.restarts.log"))
        sections.append(_section(f"program:{program.name}", keys))
    return "\n".join(sections)


def _section(name: str, keys: Mapping[str, str]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def _text(value: str) -> str:
    # supervisord expands %(name)s in values, and takes ` ;` for a comment.
    if "\n" in value or " ;" in value:
        raise UsageError(
            f"supervisord's configuration cannot hold {value!r}. Fix: use a path without ' ;' or line ends"
        )
    return value.replace("%", "%%")


def _quoted(value: str) -> str:
    # supervisord has no escape for a quote in a value of `environment`.
    quote = "'" if '"' in value else '"'
    if quote in value:
        raise UsageError(
            f"supervisord cannot pass a value with both kinds of quotes: {value[:40]!r}…. Fix: use one kind"
        )
    return f"{quote}{_text(value)}{quote}"


# Longer than the longest stopwaitsecs: supervisord answers a stop when it is done.
TIMEOUT_SECONDS = 70.0


class Supervisor:
    """One stack's supervisord."""

    def __init__(self, home: StackDir, port: int, password: str) -> None:
        self.home = home
        self.port = port
        self.password = password
        self.conf = home.conf / "supervisord.conf"

    def proxy(self) -> Any:
        """The `supervisor` namespace of its XML-RPC API. Not to be shared between threads."""
        address = supervisor.Supervisor(f"http://{HOST}:{self.port}/RPC2", "sluice", self.password)
        return connect(address, TIMEOUT_SECONDS)

    def pid(self) -> int | None:
        """Its process id; None if nothing answers on its port. Raises UsageError if another answers."""
        try:
            return int(self.proxy().getPID())
        except (ConnectionError, TimeoutError):
            return None
        except (xmlrpc.client.Error, http.client.HTTPException) as error:
            if isinstance(error, xmlrpc.client.Fault) and error.faultCode == Faults.SHUTDOWN_STATE:
                raise UsageError("the stack is stopping. Fix: wait until it has stopped") from error
            raise UsageError(
                f"port {self.port} for supervisor is answered by something else ({error}). "
                "Fix: set SLUICE_SUPERVISOR_PORT to a free port"
            ) from error

    def write(self, programs: Sequence[Program]) -> bool:
        """Write its configuration; whether it changed."""
        return write_private(
            self.conf, render(programs, self.home.root, f"{HOST}:{self.port}", self.password)
        )

    def start(self, python: Path, environment: dict[str, str]) -> None:
        """Start it in the background. Raises UsageError with its output if it does not answer in 10 s."""
        started = subprocess.run(
            [python, "-m", "supervisor.supervisord", "-c", self.conf],
            env=environment,
            cwd=self.home.root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if started.returncode == 0 and wait_for(self.pid, 10):
            return
        output = " ".join((started.stdout + started.stderr).split())[-300:]
        raise UsageError(
            f"supervisord did not start: {output or 'see ' + str(self.home.logs / 'supervisord.log')}"
        )

    def reload(self) -> list[str]:
        """Apply a changed configuration; stop and replace the changed programs only, and name them."""
        proxy = self.proxy()
        added, changed, removed = proxy.reloadConfig()[0]
        for name in (*changed, *removed):
            proxy.stopProcessGroup(name)
            proxy.removeProcessGroup(name)
        for name in (*added, *changed):
            proxy.addProcessGroup(name)
        return [*added, *changed, *removed]

    def states(self) -> dict[str, dict[str, Any]]:
        """Program → supervisord's process info (statename, pid, description, spawnerr …)."""
        return {info["name"]: info for info in self.proxy().getAllProcessInfo()}

    def ensure_started(self, name: str) -> None:
        """Start a program unless it runs, without waiting. Raises xmlrpc.client.Fault if it cannot."""
        try:
            self.proxy().startProcess(name, False)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != Faults.ALREADY_STARTED:
                raise

    def ensure_stopped(self, name: str) -> None:
        """Stop a program if it runs, and wait until it has stopped."""
        try:
            self.proxy().stopProcess(name, True)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != Faults.NOT_RUNNING:
                raise

    def restart(self, name: str) -> None:
        """Stop a program, and start it without waiting."""
        self.ensure_stopped(name)
        self.ensure_started(name)

    def shutdown(self, seconds: float) -> bool:
        """Stop everything and wait; whether it ended in time (or did not run)."""
        pid = self.pid()
        if pid is None:
            return True
        self.proxy().shutdown()
        return wait_for(lambda: not Path(f"/proc/{pid}").exists(), seconds)
