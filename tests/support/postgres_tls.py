"""A PostgreSQL with TLS of its own, which that of the embedded stack is built without: Debian's, unpacked and
not installed, since its package would start a service."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg2

from local.runtime.ports import HOST, choose
from tests.support.certificates import Authority

CACHE = Path(tempfile.gettempdir()) / "sluice-tests-postgresql"
START_SECONDS = 30
# Debian's user without rights: the server refuses to run as root.
UNPRIVILEGED = 65534
SUPERUSER, DATABASE = "root_of_tests", "lake"
# Who logs in by a certificate alone, and who by a password and a certificate.
CERTIFIED, BOTH = "lake_consumer", "lake_reader"
PASSWORD = "of both"
_ACCESS = f"""local all all trust
hostssl {DATABASE} {CERTIFIED} {HOST}/32 cert
hostssl {DATABASE} {BOTH} {HOST}/32 scram-sha-256 clientcert=verify-full
"""


def binaries() -> Path:
    """The folder of its programs. Raises RuntimeError if they cannot be had."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found := list(CACHE.glob("usr/lib/postgresql/*/bin"))):
            _fetch()
            found = list(CACHE.glob("usr/lib/postgresql/*/bin"))
    return max(found)


def _fetch() -> None:
    depended = ["apt-cache", "depends", "postgresql"]
    if not (named := _package(depended)) and os.geteuid() == 0:
        subprocess.run(["apt-get", "update"], capture_output=True, check=True)
        named = _package(depended)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        done = subprocess.run(
            ["apt-get", "download", named], cwd=folder, capture_output=True, text=True, check=False
        )
        archives = list(Path(folder).glob("*.deb"))
        if done.returncode or not archives:
            raise RuntimeError(f"apt-get download {named} ended with {done.returncode}: {done.stderr[-500:]}")
        unpacked = Path(folder, "unpacked")
        subprocess.run(["dpkg-deb", "-x", str(archives[0]), str(unpacked)], check=True)
        (unpacked / "usr").rename(CACHE / "usr")
    # The server does not run as root, whose folders these would be.
    subprocess.run(["chmod", "-R", "go+rX", str(CACHE)], check=True)


def _package(depended: list[str]) -> str:
    said = subprocess.run(depended, capture_output=True, text=True).stdout
    names = [line.split()[-1] for line in said.splitlines() if "Depends: postgresql-" in line]
    return names[0] if names else ""


class TlsPostgres:
    """A server on a free loopback port, whose certificate and clients' are of ``authority``."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.port = choose({}, {}, free=True)["postgres"]
        self._binaries = binaries()
        # Not in pytest's folder: that is root's.
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
        self._user = pwd.getpwuid(UNPRIVILEGED) if os.geteuid() == 0 else None
        self._own(self.folder)
        self._run("initdb", "-D", self._data, "-U", SUPERUSER, "--auth=trust", "--no-sync", "-E", "UTF8")
        Path(self._data, "pg_hba.conf").write_text(_ACCESS)
        self.certify()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        for statement in (
            f"create role {CERTIFIED} login",
            f"create role {BOTH} login password '{PASSWORD}'",
            f"create database {DATABASE}",
        ):
            self.execute(statement)
        self.execute(f"grant create on schema public to {CERTIFIED}", DATABASE)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def certify(self, host: str = "localhost") -> None:
        """Give the server a certificate; one that runs reads it at :meth:`reload`."""
        certificate, key = self.authority.issue("server", host=host)
        for source, name in ((certificate, "crt"), (key, "key"), (self.authority.ca, "ca")):
            target = self.folder / f"server.{name}"
            shutil.copyfile(source, target)
            target.chmod(0o600)
            self._own(target)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """As its superuser."""
        place = {"host": str(self.folder), "port": self.port, "dbname": database}
        connection = psycopg2.connect(**place, user=SUPERUSER)
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)
        connection.close()

    def reload(self) -> None:
        """Read certificates and access again, for new connections."""
        self.execute("select pg_reload_conf()")
        time.sleep(0.2)

    def start(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": self.folder,
            "ssl": "on",
            "ssl_cert_file": self.folder / "server.crt",
            "ssl_key_file": self.folder / "server.key",
            "ssl_ca_file": self.folder / "server.ca",
            "fsync": "off",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", self._data, *options), stdout=log, stderr=log, cwd="/"
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self.execute("select 1")
            except psycopg2.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "log").read_text()[-2000:]
                    raise AssertionError(f"PostgreSQL did not start ({error}):\n{said}") from error
                time.sleep(0.05)

    def stop(self) -> None:
        """End it, and remove its data."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _own(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _command(self, program: str, *arguments: str) -> list[str]:
        options = ["--pdeathsig", "KILL"]
        if self._user is not None:
            user, group = str(self._user.pw_uid), str(self._user.pw_gid)
            options += ["--reuid", user, "--regid", group, "--clear-groups"]
        return ["setpriv", *options, "--", str(self._binaries / program), *arguments]

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(self._command(program, *arguments), capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr[-2000:]}")
