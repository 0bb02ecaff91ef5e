"""supervisord as the stack uses it: started, asked and told through XML-RPC on loopback."""

from __future__ import annotations

import http.client
import subprocess
import xmlrpc.client
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults

from local.errors import Problem
from local.runtime.home import Home, write_private
from local.runtime.ports import HOST
from local.runtime.programs import Program, render
from sluice.io.retry import wait_for
from sluice.model.spec import platform
from sluice.runtime.supervisord import connect

TIMEOUT_SECONDS = 70.0  # longer than the longest stopwaitsecs, since a stop is answered when it is done


class Supervisor:
    """One stack's supervisord."""

    def __init__(self, home: Home, port: int, password: str) -> None:
        self.home = home
        self.port = port
        self.password = password
        self.conf = home.conf / "supervisord.conf"

    def proxy(self) -> Any:
        """The `supervisor` namespace of its XML-RPC API. Not to be shared between threads."""
        address = platform.Supervisor(f"http://{HOST}:{self.port}/RPC2", "sluice", self.password)
        return connect(address, TIMEOUT_SECONDS)

    def pid(self) -> int | None:
        """Its process id; None when nothing answers on its port. Raises Problem when another answers."""
        try:
            return int(self.proxy().getPID())
        except (ConnectionError, TimeoutError):
            return None
        except (xmlrpc.client.Error, http.client.HTTPException) as error:
            if isinstance(error, xmlrpc.client.Fault) and error.faultCode == Faults.SHUTDOWN_STATE:
                raise Problem("the stack is being stopped: wait until that is done") from error
            raise Problem(
                f"port {self.port} for supervisor is answered by something else ({error}): "
                "set SLUICE_SUPERVISOR_PORT to a free port"
            ) from error

    def write(self, programs: Sequence[Program]) -> bool:
        """Writes its configuration; says whether it changed."""
        return write_private(self.conf, render(programs, self.home.root, self.port, self.password))

    def start(self, python: Path, environment: dict[str, str]) -> None:
        """Starts it in the background. Raises Problem with its last words when it does not answer in 10 s."""
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
        said = " ".join((started.stdout + started.stderr).split())[-300:]
        raise Problem(
            f"supervisord did not start: {said or 'see ' + str(self.home.logs / 'supervisord.log')}"
        )

    def reload(self) -> list[str]:
        """Takes over a changed configuration; stops and renews only changed programs, and names them."""
        proxy = self.proxy()
        added, changed, removed = proxy.reloadConfig()[0]
        for name in (*changed, *removed):
            proxy.stopProcessGroup(name)
            proxy.removeProcessGroup(name)
        for name in (*added, *changed):
            proxy.addProcessGroup(name)
        return [*added, *changed, *removed]

    def states(self) -> dict[str, dict[str, Any]]:
        """Program → what supervisord knows of it (statename, pid, description, spawnerr …)."""
        return {info["name"]: info for info in self.proxy().getAllProcessInfo()}

    def ensure_started(self, name: str) -> None:
        """Starts a program unless it runs; does not wait. Raises xmlrpc.client.Fault when it cannot."""
        try:
            self.proxy().startProcess(name, False)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != Faults.ALREADY_STARTED:
                raise

    def ensure_stopped(self, name: str) -> None:
        """Stops a program unless it does not run, and waits for that."""
        try:
            self.proxy().stopProcess(name, True)
        except xmlrpc.client.Fault as fault:
            if fault.faultCode != Faults.NOT_RUNNING:
                raise

    def restart(self, name: str) -> None:
        """Stops a program, and starts it anew without waiting for it."""
        self.ensure_stopped(name)
        self.ensure_started(name)

    def shutdown(self, seconds: float) -> bool:
        """Asks it to stop everything, and waits; says whether it was gone in time (or did not run)."""
        pid = self.pid()
        if pid is None:
            return True
        self.proxy().shutdown()
        return wait_for(lambda: not Path(f"/proc/{pid}").exists(), seconds)
