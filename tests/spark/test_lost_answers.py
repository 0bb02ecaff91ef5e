"""The catalog commits, and its answer is lost: Iceberg's client connects again, and is refused by what it has
committed itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from typing import Any

from local.stack.stack import wait_until
from sluice.config.platform_sections.catalog import GLUE, REST, SQL
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.iceberg import MAIN
from tests.support import glue_server
from tests.support.catalog_proxy import Ask, Asked, passed_on
from tests.support.catalogs import on_each_catalog
from tests.support.lakehouse import Stream
from tests.support.services import Services

# Lost between a database's client and it, of which one is a REST catalog, and between AWS Glue and its
# client. Between a REST catalog and its client: test_rest_faults.py; MySQL and its: test_mysql_catalog.py.
pytestmark = on_each_catalog(SQL, kinds=(SQL, REST, GLUE))
WAITING = (
    "select pid from pg_stat_activity where wait_event = 'SyncRep' and query like '%UPDATE iceberg_tables%'"
)


@contextmanager
def losing_the_first_answer(stream: Stream) -> Iterator[None]:
    """AWS Glue's, or the database's."""
    if stream.catalog != GLUE:
        with of_the_database(stream.services):
            yield
        return
    proxy, lost = stream.services.glue_proxy, list[str]()

    def noted(asked: Asked, ask: Ask) -> None:
        lost.append(asked.json["TableInput"]["Name"])
        assert ask(asked).status == 200

    proxy.rule = glue_server.at_commits(glue_server.once(noted))
    try:
        yield
    finally:
        proxy.rule = passed_on
    assert lost == [stream.spec.name]


@contextmanager
def of_the_database(services: Services) -> Iterator[None]:
    """PostgreSQL commits, and would wait for a standby that does not exist; its process is ended there."""
    with closing(services.postgres()) as connection, ThreadPoolExecutor(1) as pool:
        connection.autocommit = True
        cursor = connection.cursor()

        def standby(name: str) -> None:
            cursor.execute(f"alter system set synchronous_standby_names = '{name}'")
            cursor.execute("select pg_reload_conf()")

        def waiting() -> list[int]:
            cursor.execute(WAITING)
            return [pid for (pid,) in cursor.fetchall()]

        def lose() -> None:
            try:
                wait_until("a commit", lambda: bool(waiting()), 60, 0.02)
                for pid in waiting():
                    cursor.execute("select pg_terminate_backend(%s, 5000)", (pid,))
            finally:
                standby("")

        standby("no_such_server")
        lost = pool.submit(lose)
        yield
        lost.result(60)


class LosesAnAnswer(StreamWriter):
    """That to its first publish."""

    def __init__(self, stream: Stream, *given: Any) -> None:
        super().__init__(*given)
        self._stream = stream

    def _publish(
        self,
        keep: int,
        needed_from: Callable[[], int] = now_ms,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        with nullcontext() if self.has_published else losing_the_first_answer(self._stream):
            super()._publish(keep, needed_from, properties)


def commits(stream: Stream) -> int:
    """The number of metadata files after the one of the table's creation."""
    return int(stream.metadata_location().rpartition("/")[2].partition("-")[0])


def test_the_lease_is_acquired_in_one_commit_also_if_its_answer_is_lost(stream: Stream) -> None:
    before, first = commits(stream), stream.writer()
    with losing_the_first_answer(stream):
        first.acquire()
    assert (first.epoch, commits(stream) - before) == (1, 1)
    assert [s["epoch"] for s in stream.summaries()] == ["1"]
    first.check_lease()
    second = stream.writer()
    second.acquire()
    assert commits(stream) - before == 2
    assert [s["epoch"] for s in stream.summaries()] == ["2", "1"]
    heads = {name: second.table.head(name) for name in second.table.branches()}
    assert heads == {MAIN: second.head, second.branch: second.head}
    known = {int(snapshot.snapshotId()) for snapshot in second.table._table.snapshots()}
    assert known == {first.head, second.head}


def test_a_publish_whose_answer_is_lost_is_a_publish(stream: Stream) -> None:
    """No failover follows: the writer goes on."""
    stream.send(3)
    writer = stream.writer(kind=partial(LosesAnAnswer, stream))
    consumption = stream.run(writer)
    stream.assert_exact(3)
    stream.send(2)
    consumption.query.processAllAvailable()
    stream.assert_exact(5)
    assert {s["epoch"] for s in stream.summaries()} == {"1"}
