"""A stack on a REST catalog, and one on PostgreSQL: what runs, who is told of it, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local.base import UsageError
from local.commands import stack as commands
from local.runtime import roles
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.roles import CATALOG_READERS, CATALOG_WRITERS
from local.services import rest_catalog
from local.stack import health, optional_services
from local.stack.stack import Stack
from local.status import show
from sluice.config import platform
from sluice.config.platform import ROLES
from sluice.config.reading.toml import dump
from tests.support.raising import raising

FOLDER = Path("/cache/jars-rest-catalog-0")


@pytest.fixture
def on_rest(context: Context, stack: Callable[[str], Stack]) -> Stack:
    made = stack("public")
    made.context = replace(context, rest_catalog=FOLDER)
    return made


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the set-up would fetch."""
    asked: list[str] = []
    monkeypatch.setattr(optional_services, "ensure_rest_catalog", lambda: asked.append("jars"))
    monkeypatch.delenv(rest_catalog.VARIABLE, raising=False)
    return asked


def test_the_kind_is_kept_and_checked() -> None:
    assert rest_catalog.chosen(None, None) == "sql"
    assert rest_catalog.chosen("", "rest") == "rest"
    assert rest_catalog.chosen("sql", "rest") == "sql"
    with raising(UsageError, "SLUICE_CATALOG", "'glue'", "Fix: give sql or rest"):
        rest_catalog.chosen("glue", None)


def test_it_is_fetched_only_for_a_stack_that_chooses_it(
    context: Context, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = StackDir(context.home.root)

    def decide(requested: str | None = None) -> bool:
        optional_services.decide_catalog(home, None, False, requested)
        return optional_services.has_rest_catalog(home)

    assert not optional_services.has_rest_catalog(home)
    assert (decide(), fetched) == (False, [])
    assert (decide("rest"), fetched) == (True, ["jars"])
    assert decide(), "the kind is kept"
    monkeypatch.setenv(rest_catalog.VARIABLE, "sql")
    assert not decide()
    assert decide("rest"), "an option is before a variable"


def test_a_running_stack_stays_on_its_catalog(context: Context, fetched: list[str]) -> None:
    home = StackDir(context.home.root)
    for before, asked in (("sql", "rest"), ("rest", "sql")):
        with raising(UsageError, f"runs on catalog {before}, not on {asked}", "Fix: make down first"):
            optional_services.decide_catalog(home, None, True, asked)
        # Stopped, it goes to the other; then again while it runs, which changes nothing.
        for is_running in (False, True):
            optional_services.decide_catalog(home, None, is_running, asked)
        assert home.state()["catalog"] == asked


def test_an_s3_of_others_has_no_login_for_it(context: Context, fetched: list[str]) -> None:
    home = StackDir(context.home.root)
    optional_services.decide_catalog(home, "/external", False, "sql")
    with raising(UsageError, "SLUICE_EXTERNAL names another S3", "Fix: local/run up --catalog sql"):
        optional_services.decide_catalog(home, "/external", False, "rest")
    assert (home.state()["catalog"], fetched) == ("sql", [])


def test_without_it_there_is_no_program_and_no_port_is_checked(
    stack: Callable[[str], Stack], on_rest: Stack
) -> None:
    without = stack("public")
    assert rest_catalog.PORT not in without.served()
    assert rest_catalog.NAME not in [program.name for program in without.programs()]
    assert rest_catalog.PORT in on_rest.served()
    assert rest_catalog.NAME in [program.name for program in on_rest.programs()]
    with raising(UsageError, "local/run up --catalog rest"):
        rest_catalog.program(without.context)


def test_roles_find_tables_through_it_each_with_a_token_of_its_own(
    stack: Callable[[str], Stack], on_rest: Stack
) -> None:
    def catalogs(made: Stack) -> dict[str, platform.Platform]:
        return {
            role: platform.parse(dump(document), role) for role, document in made.platform_documents().items()
        }

    assert {one.lake.catalog.type for one in catalogs(stack("public")).values()} == {"sql"}
    found = {role: one.lake.catalog for role, one in catalogs(on_rest).items()}
    assert {one.uri for one in found.values()} == {f"http://127.0.0.1:{on_rest.ports[rest_catalog.PORT]}"}
    assert len({one.token for one in found.values()}) == len(ROLES)
    assert not [one for one in found.values() if one.plain_text], "it is on this machine"


def test_the_server_lets_in_writers_and_readers_and_not_maintenance(on_rest: Stack) -> None:
    settings = dict(line.split("=", 1) for line in rest_catalog.settings(on_rest.context).splitlines())
    for right, allowed in (("writer", CATALOG_WRITERS), ("reader", CATALOG_READERS)):
        let_in = {name: value for name, value in settings.items() if name.startswith(f"{right}.")}
        assert let_in == {f"{right}.{role}": on_rest.secrets[f"catalog_{role}"] for role in allowed}
    assert set(CATALOG_WRITERS) | set(CATALOG_READERS) == set(ROLES) - {"maintenance"}
    assert on_rest.secrets["catalog_maintenance"] not in settings.values()
    assert (settings["host"], settings["name"]) == ("127.0.0.1", "lake")


def test_its_login_of_the_bucket_is_for_what_tables_are(context: Context) -> None:
    assert "catalog" not in roles.s3_policies()
    listing, writing = roles.s3_policies(rest_catalog=True)["catalog"]["Statement"]
    assert listing["Action"] == ["s3:ListBucket", "s3:GetBucketLocation"]
    assert writing["Resource"] == ["arn:aws:s3:::warehouse/lake/*/metadata/*"]
    assert not [action for action in writing["Action"] if "Delete" in action]


def test_secrets_are_in_its_file_alone(on_rest: Stack) -> None:
    optional_services.prepare(on_rest.context)
    (file,) = rest_catalog.files(on_rest.context)
    assert file.stat().st_mode & 0o777 == 0o600
    argv = " ".join(rest_catalog.program(on_rest.context).command)
    assert not [name for name, value in on_rest.secrets.items() if value in argv]
    odd = replace(on_rest.context, secrets={**on_rest.secrets, "lake_catalog": "a\\b"})
    assert "catalog.jdbc.password=a\\\\b\n" in rest_catalog.settings(odd)


def test_status_shows_the_kind_and_whether_it_answers(stack: Callable[[str], Stack], on_rest: Stack) -> None:
    running = {rest_catalog.NAME: {"statename": "RUNNING"}}
    [row] = health.rows(on_rest.context, running, lambda name, context: "ready")
    assert (row.is_ok, row.address) == (True, f"http://127.0.0.1:{on_rest.ports[rest_catalog.PORT]}")
    assert (show.catalog(stack("public")), show.catalog(on_rest)) == ("sql", "rest")


def test_up_passes_the_kind_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    class Opened(Exception):
        """The options."""

    def opened(**options: object) -> Stack:
        raise Opened(options)

    monkeypatch.setattr(commands, "opened", opened)
    app = typer.Typer()
    app.command()(commands.up)
    for arguments, kind in (([], None), (["--catalog", "rest"], "rest")):
        error = CliRunner().invoke(app, arguments).exception
        assert isinstance(error, Opened)
        assert error.args[0]["catalog"] == kind
