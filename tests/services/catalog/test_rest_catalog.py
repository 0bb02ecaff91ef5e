"""Iceberg's REST catalog of the embedded stack: who may do what, and what a crash leaves."""

from __future__ import annotations

import stat

import pytest
from botocore.exceptions import ClientError
from pyiceberg.exceptions import ForbiddenError

from local.runtime.ports import HOST
from local.runtime.roles import CATALOG_READERS, CATALOG_USER, CATALOG_WRITERS, WAREHOUSE
from local.services import postgres, rest_catalog
from local.stack.stack import wait_until
from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import findings
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from tests.services.catalog.raw_table import CLIENT, RawTable
from tests.support.processes import listening
from tests.support.services import Services


@pytest.fixture(scope="module")
def table(services: Services) -> RawTable:
    return RawTable(services.rest_catalog, services.stack.secrets["catalog_consumer"])


@pytest.mark.parametrize("kind", ["rest", "sql"])
def test_it_keeps_what_a_writer_relies_on_and_so_does_postgresql(services: Services, kind: str) -> None:
    on_rest, on_sql = services.on_rest("consumer"), services.stack.platform("consumer")
    platform = {"rest": on_rest, "sql": on_sql}[kind]
    one, other = Lake.open(platform), Lake.open(platform)
    try:
        one.catalog.create_namespace_if_not_exists("scratch")
        found = list(findings(one.catalog, other.catalog, "scratch.trial", rounds=3))
    finally:
        one.close()
        other.close()
    assert [finding for finding in found if not finding.is_kept] == []
    assert len(found) == len(STEPS) + len(RACES)


def test_writers_change_tables_and_the_others_read(services: Services, table: RawTable) -> None:
    secrets = services.stack.secrets
    for role in (*CATALOG_WRITERS, *CATALOG_READERS):
        assert table.ask("GET", table.path, token=secrets[f"catalog_{role}"])[0] == 200, role
    renamed = {"updates": [{"action": "set-properties", "updates": {"a": "b"}}], "requirements": []}
    for role in CATALOG_READERS:
        token = secrets[f"catalog_{role}"]
        assert table.ask("POST", table.path, renamed, token)[0] == 403, role
        assert table.ask("DELETE", table.path, token=token)[0] == 403, role
    assert "a" not in table.load()["properties"]
    for role in CATALOG_WRITERS:
        assert table.ask("POST", table.path, renamed, secrets[f"catalog_{role}"])[0] == 200, role
    assert table.load()["properties"]["a"] == "b"


@pytest.mark.parametrize("path", ["/v1/config", "/v1/namespaces", "/v1/oauth/tokens", "/"])
def test_without_a_token_nothing_is_told(services: Services, path: str) -> None:
    # Role maintenance has no right in the catalog.
    unknown = services.stack.secrets["catalog_maintenance"]
    known = services.stack.secrets["catalog_reader"]
    for header in (None, "", "Bearer", f"Bearer {unknown}", f"Bearer {known}x", f"Basic {known}"):
        headers = {} if header is None else {"Authorization": header}
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            answer = CLIENT.request(method, f"{services.rest_catalog}{path}", headers=headers)
            assert answer.status_code == 401, (method, header)


def test_a_table_in_a_namespace_of_two_parts_is_said_to_be_missing(table: RawTable) -> None:
    """As Spark asks for a branch of a table before it writes to it; with any other answer it does not."""
    path = f"/namespaces/{table.namespace}%1Ft/tables/branch_w1"
    status, answer = table.ask("GET", path)
    assert (status, answer["error"]["type"]) == (404, "NoSuchTableException")


def test_a_token_is_not_exchanged_for_another(services: Services, table: RawTable) -> None:
    status, answer = table.ask("POST", "/oauth/tokens", {})
    assert (status, answer["error"]["type"]) == (404, "NoSuchEndpointException")


def test_it_listens_on_loopback_alone(services: Services, table: RawTable) -> None:
    found = listening("CatalogServer.java", services.stack.home.id)
    assert found == {(HOST, services.stack.ports[rest_catalog.PORT])}


def test_its_passwords_are_in_no_argument_and_no_log(services: Services, table: RawTable) -> None:
    secrets, context = services.stack.secrets, services.rest_catalog_context
    own = [value for name, value in secrets.items() if "catalog" in name]
    argv = " ".join(rest_catalog.program(context).command)
    log = (services.stack.home.logs / f"{rest_catalog.NAME}.log").read_text()
    assert "Started oejs.Server" in log
    assert not [value for value in own if value in argv or value in log]
    (file,) = rest_catalog.files(context)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_stack_goes_from_one_kind_of_catalog_to_the_other_with_its_tables(
    services: Services, table: RawTable
) -> None:
    name = f"{table.namespace}.t"
    for kind, platform in (
        ("sql", services.stack.platform("consumer")),
        ("rest", services.on_rest("consumer")),
    ):
        lake = Lake.open(platform)
        try:
            assert platform.lake.catalog.type == kind
            with lake.catalog.load_table(name).transaction() as changing:
                changing.set_properties(kind=kind)
        finally:
            lake.close()
        assert table.load()["properties"]["kind"] == kind
    reader = Lake.open(services.on_rest("reader"))
    assert reader.table(name).properties["kind"] == "rest"
    with pytest.raises(ForbiddenError, match="this token may read only"):
        reader.catalog.drop_table(name)
    # Either may be the first, which makes the catalog's tables.
    with postgres.cursor(services.stack.context, "lake") as cursor:
        cursor.execute("select tableowner from pg_tables where tablename like 'iceberg_%'")
        assert {row[0] for row in cursor.fetchall()} == {"lake_writer"}


def test_its_login_of_the_bucket_writes_what_a_table_is_and_reads_no_row(
    services: Services, table: RawTable
) -> None:
    s3 = connect(
        S3(CATALOG_USER, services.stack.secrets["minio_catalog"], services.minio_url, path_style=True)
    )
    place = table.metadata["location"].removeprefix(f"s3://{WAREHOUSE}/")
    s3.put_object(Bucket=WAREHOUSE, Key=f"{place}/metadata/a.json", Body=b"{}")
    services.minio.put_object(Bucket=WAREHOUSE, Key=f"{place}/data/a.parquet", Body=b"rows")
    for refused in (
        lambda: s3.get_object(Bucket=WAREHOUSE, Key=f"{place}/data/a.parquet"),
        lambda: s3.put_object(Bucket=WAREHOUSE, Key=f"{place}/data/b.parquet", Body=b""),
        lambda: s3.put_object(Bucket=WAREHOUSE, Key="ledger/a/metadata/b.json", Body=b""),
        lambda: s3.delete_object(Bucket=WAREHOUSE, Key=f"{place}/metadata/a.json"),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            refused()


def test_tables_survive_a_crash_of_the_server_and_of_its_database(
    services: Services, table: RawTable
) -> None:
    before = table.load()
    services.crash(rest_catalog.NAME, 0)
    assert table.load() == before
    services.crash("postgres", 1)
    wait_until("the catalog", lambda: table.ask("GET", table.path)[0] == 200, 30)
    assert table.load() == before
