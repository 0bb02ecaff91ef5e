"""A catalog in MariaDB, which is MySQL to every client: what a writer relies on, and who gets a login."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from sluice.clients.lake.catalog import Lake
from sluice.config.platform import Platform
from sluice.config.platform_sections import catalog as catalog_section
from sluice.config.platform_sections.catalog import MYSQL
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.errors import Refused
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import catalog_options
from tests.support.lakehouse import Stream, commit
from tests.support.mysql_catalog import MysqlCatalog, MysqlFront
from tests.support.postgres_front import HOST, make_certificates
from tests.support.raising import in_time, raising
from tests.support.services import Services

ON_MYSQL = pytest.mark.parametrize("stream", [MYSQL], indirect=True)
_names = count()


def at(services: Services, port: int, **declared: Any) -> Platform:
    """The consumer's platform, with the catalog behind a front."""
    found = services.on_mysql("consumer")
    catalog = replace(services.mysql.catalog("consumer", port=port), **declared)
    return replace(found, lake=replace(found.lake, catalog=catalog))


@pytest.fixture
def front(services: Services) -> Iterator[MysqlFront]:
    made = MysqlFront(services.mysql.server.port)
    yield made
    made.stop()


def through(stream: Stream, port: int) -> None:
    """Let the stream's session open its catalog through a front."""
    for key, value in catalog_options(at(stream.services, port)).items():
        stream.spark.conf.set(key, value)
    stream.spark._jsparkSession.sessionState().catalogManager().reset()


@pytest.mark.exhaustive
@ON_MYSQL
def test_batches_are_published_also_when_an_answer_is_lost_and_the_server_was_away(
    stream: Stream, front: MysqlFront
) -> None:
    through(stream, front.port)
    running = stream.run(stream.writer())
    for _ in range(2):
        stream.send(2)
        running.query.processAllAvailable()
    front.lose_answer("UPDATE iceberg_tables")
    stream.send(2)
    running.query.processAllAvailable()
    assert front.has_lost
    # As after its wait_timeout: each connection that a pool keeps is gone.
    stream.services.mysql.server.kill()
    stream.services.mysql.server.start()
    stream.send(2)
    running.query.processAllAvailable()
    stream.assert_exact(8)


@ON_MYSQL
@pytest.mark.exhaustive
def test_of_two_publishes_one_is_accepted(stream: Stream) -> None:
    writer = stream.writer()
    writer.acquire()
    commit(writer.table, {"sluice.kind": "batch"}, writer.branch)
    other = IcebergTable(stream.spark, stream.spec.table)
    other.refresh()
    main, branch = other.head(MAIN), other.head(writer.branch)
    mine = IcebergTable(stream.spark, stream.spec.table)
    mine.refresh()
    mine.change_refs({MAIN: main, writer.branch: branch}, {MAIN: branch})
    with raising(CommitRefused):
        other.change_refs({MAIN: main, writer.branch: branch}, {writer.branch: None})


def opened(platform: Platform) -> Callable[[], object]:
    """By PyIceberg."""
    lake = Lake.open(platform)
    return lambda: lake.location("raw.none")


def jdbc(spark: SparkSession, platform: Platform) -> Callable[[], object]:
    name = f"mysql{next(_names)}"
    for key, value in catalog_options(platform).items():
        spark.conf.set(key.replace(f"spark.sql.catalog.{CATALOG}", f"spark.sql.catalog.{name}"), value)
    return lambda: spark.sql(f"show namespaces in {name}").collect()


@pytest.fixture(scope="module")
def encrypted() -> Iterator[tuple[MysqlCatalog, Path, Path]]:
    """A server with TLS and a certificate for localhost, its CA, and another one."""
    # The server does not run as root, whose pytest's folder is.
    folder = Path(tempfile.mkdtemp(prefix="sluice-tls-"))
    folder.chmod(0o755)
    trusted, other = (make_certificates(folder, name, "localhost") for name in ("trusted", "other"))
    made = MysqlCatalog(f"--ssl-cert={trusted.server}", f"--ssl-key={trusted.server}")
    yield made, trusted.ca, other.ca
    made.stop()
    shutil.rmtree(folder)


@pytest.mark.exhaustive
def test_a_catalog_that_is_another_is_told_no_login(
    spark: SparkSession, services: Services, encrypted: tuple[MysqlCatalog, Path, Path]
) -> None:
    secure, ca, other = encrypted
    plain = services.on_mysql("consumer")

    def asked(server: MysqlCatalog, host: str, mode: str, given: Path, password: str = "") -> Any:
        declared = server.catalog("consumer", host)
        catalog = replace(declared, sslmode=mode, sslrootcert=str(given))
        if password:
            catalog = replace(catalog, password=password)
        platform = replace(plain, lake=replace(plain.lake, catalog=catalog))
        return opened(platform), jdbc(spark, platform)

    # The catalog's tables, which PyIceberg does not make.
    asked(secure, "localhost", "verify-full", ca)[1]()
    for host, mode in (("localhost", "verify-full"), (HOST, "verify-ca"), (HOST, "require")):
        for question in asked(secure, host, mode, ca):
            question()
    refused = (
        (secure, "localhost", "verify-full", other),
        (secure, HOST, "verify-ca", other),
        (secure, HOST, "verify-full", ca),
        (services.mysql, "localhost", "verify-full", ca),
        (services.mysql, HOST, "require", ca),
    )
    for server, host, mode, given in refused:
        # A server that got the login would say that it is wrong.
        python, java = asked(server, host, mode, given, password="wrong")
        with raising(Refused, "is not verified, and got no login", "Fix: correct sslrootcert"):
            python()
        with pytest.raises(Py4JJavaError) as caught:
            java()
        assert "SLU-228 Refused: the lake's catalog" in failure_line(caught.value)
        assert "is not verified, and got no login" in failure_line(caught.value)
    _, java = asked(secure, "localhost", "verify-full", ca, password="wrong")
    with pytest.raises(Py4JJavaError) as caught:
        java()
    words = "SLU-228 LoginRefused: the lake's catalog: the catalog refuses the login"
    assert words in failure_line(caught.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("client", ["pyiceberg", "jdbc"])
def test_a_server_that_goes_silent_is_given_up(
    spark: SparkSession,
    services: Services,
    front: MysqlFront,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
) -> None:
    monkeypatch.setattr(catalog_section, "ANSWER_SECONDS", 2)
    jdbc(spark, services.on_mysql("consumer"))()
    platform = at(services, front.port)
    question = opened(platform) if client == "pyiceberg" else jdbc(spark, platform)
    question()
    front.silence()
    assert in_time(question, 60) is not None


@ON_MYSQL
@pytest.mark.exhaustive
def test_a_connection_that_is_kept_sees_what_others_commit(stream: Stream) -> None:
    # At MySQL's usual isolation a transaction reads what was there when it began.
    with closing(Lake.open(stream.services.on_mysql("reader"))) as reader:
        before = reader.location(stream.spec.table)
        commit(IcebergTable(stream.spark, stream.spec.table), {})
        assert reader.location(stream.spec.table) == stream.metadata_location() != before


def test_tables_of_another_lake_on_the_same_server_are_not_taken_for_this_ones(
    spark: SparkSession, services: Services
) -> None:
    jdbc(spark, services.on_mysql("consumer"))()
    mysql = services.mysql
    mysql.run("create database if not exists other_lake collate utf8mb4_bin")
    mysql.run(f"grant all on other_lake.* to lake_consumer@'{HOST}'")
    catalog = mysql.catalog("consumer")
    found = services.on_mysql("consumer")
    other = replace(catalog, uri=catalog.uri.replace("/lake", "/other_lake"))
    jdbc(spark, replace(found, lake=replace(found.lake, catalog=other)))()
    names = {row[0] for row in mysql.run("show tables in other_lake")}
    assert names == {"iceberg_tables", "iceberg_namespace_properties"}
