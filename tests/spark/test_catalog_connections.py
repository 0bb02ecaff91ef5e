"""Every client's connections to PostgreSQL: none in plain text or unverified unless declared, and none that
waits for ever."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

import sluice.clients.databases.postgresql  # noqa: F401 - registers the plugin of the sink's engine
from local.services.postgres import RESULTS
from sluice.clients.lake.catalog import Lake
from sluice.config import connection
from sluice.config.connection import POSTGRESQL, Database
from sluice.config.platform import Platform
from sluice.config.platform_sections import catalog as catalog_section
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.errors import Unreachable
from spark_jobs.common.feed.former import Former
from spark_jobs.common.spark.session import catalog_options
from tests.support.postgres_front import HOST, Certificates, Front, make_certificates
from tests.support.raising import in_time
from tests.support.services import Services

_catalogs = count()
# The deadline that tests wait for.
SECONDS = 2


class Clients:
    """One connection each, with a question; ``feed`` is a feed's producer, which looks for the position of an
    earlier release."""

    def __init__(self, spark: SparkSession, services: Services) -> None:
        services.postgres()
        self._spark, self._stack = spark, services.stack
        self.port = services.stack.ports["postgres"]

    def platform(self, role: str, host: str, port: int, **declared: Any) -> Platform:
        found = self._stack.platform(role)
        uri = f"postgresql://{host}:{port}/lake"
        catalog = replace(found.lake.catalog, uri=uri, **declared)
        return replace(found, lake=replace(found.lake, catalog=catalog))

    def feed(self, **lake: Any) -> Callable[[], object]:
        former = Former(self.platform("producer", **lake), "tried")
        former.load(0)
        return lambda: former.load(0)

    def pyiceberg(self, **lake: Any) -> Callable[[], object]:
        opened = Lake.open(self.platform("consumer", **lake))
        return lambda: opened.location("raw.none")

    def jdbc(self, **lake: Any) -> Callable[[], object]:
        name = f"tried{next(_catalogs)}"
        options = catalog_options(self.platform("consumer", **lake))
        for key, value in options.items():
            prefix = f"spark.sql.catalog.{CATALOG}"
            self._spark.conf.set(key.replace(prefix, f"spark.sql.catalog.{name}"), value)
        return lambda: self._spark.sql(f"show namespaces in {name}").collect()

    def sqlalchemy(self, **lake: Any) -> Callable[[], object]:
        secrets = self._stack.secrets
        options = {key: str(lake[key]) for key in lake if "ssl" in key}
        host, port = lake["host"], lake["port"]
        database = Database(POSTGRESQL, host, port, RESULTS, RESULTS, secrets["postgres_results"], options)
        opened = sa.create_engine(**database.sqlalchemy()).connect()
        return lambda: opened.execute(sa.text("select 1")).scalar()


NAMES = ("feed", "pyiceberg", "jdbc", "sqlalchemy")


@pytest.fixture(scope="module")
def clients(spark: SparkSession, services: Services) -> Clients:
    made = Clients(spark, services)
    # The catalog's tables, which the others read.
    made.jdbc(host="127.0.0.1", port=made.port)()
    return made


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("tls"), "trusted", "localhost")


@pytest.fixture
def front(clients: Clients, trusted: Certificates) -> Iterator[Front]:
    made = Front(clients.port, trusted.context())
    yield made
    made.stop()


def ask(clients: Clients, name: str, port: int, host: str, mode: str, ca: Path) -> object:
    made = getattr(clients, name)(host=host, port=port, sslmode=mode, sslrootcert=str(ca))
    return made()


@pytest.mark.parametrize("mode", ["verify-full", "verify-ca", "require"])
@pytest.mark.parametrize("name", NAMES)
def test_a_verified_catalog_answers(
    clients: Clients, front: Front, trusted: Certificates, name: str, mode: str
) -> None:
    ask(clients, name, front.port, "localhost", mode, trusted.ca)
    assert front.sessions >= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_catalog_that_is_another_is_told_no_login(
    clients: Clients, front: Front, trusted: Certificates, tmp_path: Path, name: str
) -> None:
    other = make_certificates(tmp_path, "other", "localhost")
    plain = Front(clients.port)
    refused = [
        # Another CA, another host, and one that says that it has no encryption.
        (front, "localhost", "verify-full", other.ca),
        (front, "localhost", "verify-ca", other.ca),
        (front, HOST, "verify-full", trusted.ca),
        (plain, "localhost", "verify-full", trusted.ca),
        (plain, "localhost", "require", trusted.ca),
    ]
    for server, host, mode, ca in refused:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each client has its own
            ask(clients, name, server.port, host, mode, ca)
        assert not isinstance(caught.value, AssertionError)
        assert server.sessions == 0, f"{name} began a session: {host} {mode}"
    plain.stop()


@pytest.mark.parametrize("name", NAMES)
def test_a_server_that_goes_silent_is_given_up(
    clients: Clients, front: Front, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(catalog_section, "ANSWER_SECONDS", SECONDS)
    monkeypatch.setattr(connection, "ANSWER_SECONDS", SECONDS)
    question = getattr(clients, name)(host=HOST, port=front.port, sslmode="disable")
    assert in_time(question, 30) is None
    front.silence()
    began = time.monotonic()
    # Iceberg asks again, over another connection, and that one is given up as well.
    failure = in_time(question, 60)
    assert failure is not None
    assert time.monotonic() - began >= SECONDS - 0.5
    if name == "sqlalchemy":
        assert f"within {SECONDS} s" in str(failure)
    if name == "pyiceberg":
        assert isinstance(failure, Unreachable)
