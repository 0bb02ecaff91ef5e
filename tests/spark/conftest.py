"""One local Spark session with the pinned jars, and the services that a test asks for, each started once."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from local.services.streams import archive_options
from local.setup import cache
from local.setup.bootstrap import java_home
from sluice.config import streams
from sluice.config.platform_sections.catalog import SQL
from sluice.config.sections.query import Query
from spark_jobs.common.kafka.avro import Schemas
from spark_jobs.common.spark.session import SETTINGS, catalog_options
from tests.support import catalogs
from tests.support.counting import Counting
from tests.support.databases import Maria, Postgres, Server, empty
from tests.support.feeding import Feeding
from tests.support.jvm import QUICK
from tests.support.lakehouse import Stream
from tests.support.queried import Make, Queried
from tests.support.services import Services

_numbers = count()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    catalogs.parametrize(metafunc)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    class_path = cache.spark_class_path(cache.environment().path, cache.jars("spark").path)
    archive = archive_options(cache.spark_classes(home).path)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("sluice tests")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", f"{QUICK} -XX:+UseSerialGC {archive}")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        # What has nothing to do asks Kafka or the catalog again: not a hundred times a second.
        .config("spark.sql.streaming.pollingDelay", "50ms")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.task.maxFailures", "1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    # Py4J says that it closes its connections when the log's stream is closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services"))
    yield made
    made.stop()


@pytest.fixture
def stream(
    spark: SparkSession, services: Services, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Stream]:
    """With a parameter, the kind of its catalog."""
    services.minio, services.postgres  # noqa: B018
    kind = getattr(request, "param", SQL)
    made = Stream(spark, services, f"stream_{next(_numbers)}", str(tmp_path), catalog=kind)
    yield made
    made.stop()


@pytest.fixture
def feed(services: Services, tmp_path: Path) -> Iterator[Callable[..., Feeding]]:
    made: list[Feeding] = []

    def make(url: str, **declared: int) -> Feeding:
        made.append(Feeding(services, tmp_path, url, declared))
        return made[-1]

    yield make
    for feeding in made:
        feeding.close()


@pytest.fixture(scope="session")
def maria() -> Iterator[Maria]:
    made = Maria()
    yield made
    made.stop()


@pytest.fixture(params=["postgresql", pytest.param("mariadb", marks=pytest.mark.exhaustive)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """PostgreSQL, then MariaDB, with a database that has no tables. Most tests are about our code, which one
    database proves: BOTH_SERVERS marks those about what differs."""
    found: Server
    if request.param == "mariadb":
        found = request.getfixturevalue("maria")
    else:
        found = Postgres(request.getfixturevalue("services"))
    empty(found)
    yield found
    empty(found)


@pytest.fixture(scope="module", autouse=True)
def catalogs_reopened() -> Iterator[None]:
    """Each module opens its catalogs itself: others end the catalog's database, or name another file IO."""
    yield
    session = SparkSession.getActiveSession()
    if session is not None:
        # One that is open keeps its connection and its file IO.
        session._jsparkSession.sessionState().catalogManager().reset()


@pytest.fixture
def configure(spark: SparkSession) -> Iterator[Callable[[dict[str, str]], None]]:
    """Sets configurations of the session, for one test."""
    changed: dict[str, str | None] = {}

    def setting(values: dict[str, str]) -> None:
        for key, value in values.items():
            changed.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield setting
    for key, before in changed.items():
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@pytest.fixture
def make(
    spark: SparkSession, services: Services, tmp_path: Path, configure: Callable[[dict[str, str]], None]
) -> Iterator[Make]:
    """Makes streams with queries, over a session configured as a process of queries is."""
    services.minio, services.postgres  # noqa: B018
    # The master is the session's own.
    settings = {key: value for key, value in SETTINGS.items() if key.startswith("spark.sql.")}
    configure(catalog_options(services.stack.platform("consumer")) | settings)
    made: list[Queried] = []

    def making(**queries: Query) -> Queried:
        made.append(Queried(spark, services, f"queried_{next(_numbers)}", queries, tmp_path))
        return made[-1]

    yield making
    for queried in made:
        queried.stop()


@pytest.fixture
def writers(
    spark: SparkSession,
    services: Services,
    tmp_path: Path,
    configure: Callable[[dict[str, str]], None],
) -> Iterator[Callable[..., Counting]]:
    """Starts writers of a stream that keeps state, with the epochs 1, 2, …"""
    configure(
        {
            # So that versions are put together and tidied up in a short test too.
            "spark.sql.streaming.minBatchesToRetain": "2",
            "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
            "spark.sql.streaming.stateStore.maintenanceInterval": "300ms",
        }
    )
    started: list[Counting] = []

    def start(root: str = str(tmp_path), epoch: int = 0, protected: bool = True) -> Counting:
        started.append(Counting(spark, root, services.postgres(), epoch or len(started) + 1, protected))
        return started[-1]

    yield start
    for writer in started:
        writer.stop()
    connection = services.postgres()
    with connection, connection.cursor() as cursor:
        cursor.execute("drop table if exists counts, sluice_fence")


@pytest.fixture(scope="session")
def schemas() -> Schemas:
    return Schemas.load(streams.load("nyc_taxi"))


@pytest.fixture(scope="session")
def sample() -> Path:
    return Path(__file__).resolve().parents[2] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
