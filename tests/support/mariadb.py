"""A MariaDB of its own for tests, from Debian's packages: up in seconds, ended with the test."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import sqlalchemy as sa

from local.runtime.ports import HOST, choose
from sluice.config.connection import MYSQL, Database
from tests.support import packages

# Brings programs only: no service that would start.
PACKAGE = "mariadb-server-core"
START_SECONDS = 60
STOP_SECONDS = 30
NAME = "results"
SYSTEM = Path("/usr/share/mysql")
SYSTEM_PARTS = ("system_tables", "performance_tables", "system_tables_data")


class MariaDB:
    """A server on a free loopback port, with a database and a user of it, whose passwords are generated."""

    def __init__(self, *settings: str) -> None:
        """``settings``: further ones of the server."""
        self._further = settings
        self._program = packages.program("mariadbd", PACKAGE)
        self.port = choose({}, {}, free=True)["postgres"]
        # Not in pytest's folder: that is root's, and the server does not run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-mariadb-"))
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._root_password, self._password = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self._process: subprocess.Popen[bytes] | None = None
        self._own(self.folder)
        self._install()
        self.start()

    @property
    def database(self) -> Database:
        """Connection of the user ``results``, who has all rights on the database ``results`` only."""
        return Database(MYSQL, HOST, self.port, NAME, NAME, self._password)

    def engine(self) -> sa.Engine:
        """For what a test does there, as root; without a pool."""
        root = Database(MYSQL, HOST, self.port, NAME, "root", self._root_password).sqlalchemy()
        return sa.create_engine(root["url"], poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _command(self, *arguments: str) -> list[str]:
        options = ["--pdeathsig", "KILL"]
        if self._user is not None:
            user, group = str(self._user.pw_uid), str(self._user.pw_gid)
            options += ["--reuid", user, "--regid", group, "--clear-groups"]
        return ["setpriv", *options, "--", *arguments]

    def _install(self) -> None:
        """The system's tables, and users with passwords from the first moment on."""
        (self.folder / "data").mkdir(mode=0o700)
        self._own(self.folder / "data")
        system = [(SYSTEM / f"mysql_{component}.sql").read_text() for component in SYSTEM_PARTS]
        ours = (
            f"delete from mysql.global_priv;\nflush privileges;\ncreate database {NAME};\n"
            f"create user root@'{HOST}' identified by '{self._root_password}';\n"
            f"grant all on *.* to root@'{HOST}' with grant option;\n"
            f"create user {NAME}@'{HOST}' identified by '{self._password}';\n"
            f"grant all on {NAME}.* to {NAME}@'{HOST}';\n"
        )
        done = subprocess.run(
            self._command(self._program, *self._settings, "--bootstrap", "--log-warnings=0"),
            input="\n".join(
                ["create database mysql;\nuse mysql;\nset @auth_root_socket = null;", *system, ours]
            ),
            capture_output=True,
            text=True,
            cwd="/",
        )
        if done.returncode != 0:
            raise RuntimeError(f"mariadbd --bootstrap ended with {done.returncode}: {done.stderr[-2000:]}")

    @property
    def _settings(self) -> list[str]:
        return [
            "--no-defaults",
            f"--datadir={self.folder / 'data'}",
            *("--innodb-buffer-pool-size=128M", "--innodb-log-file-size=96M"),
            *("--performance-schema=OFF", "--skip-log-bin", "--skip-name-resolve"),
            *self._further,
        ]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self._command(
                    *(self._program, *self._settings, f"--port={self.port}", f"--bind-address={HOST}"),
                    *(f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}"),
                ),
                stdout=out,
                stderr=out,
                cwd="/",
            )
        engine = self.engine()
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with engine.connect():
                    return
            except sa.exc.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError(
                        f"MariaDB did not start ({error}):\n{log.read_text()[-2000:]}"
                    ) from error
                time.sleep(0.1)

    def kill(self) -> None:
        """As a power cut does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it, and remove its data."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
