"""The fence, on PostgreSQL and on MariaDB: who is late writes nothing, and a batch is written once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest
import sqlalchemy as sa

from local.stack.stack import wait_until
from spark_jobs.common.sinks import fence as fence_module
from spark_jobs.common.sinks.fence import Fence
from spark_jobs.common.spark.failures import Fenced
from tests.support.databases import BOTH_SERVERS, Server, run
from tests.support.raising import raising

STREAM = "counts"
Connect = Callable[[], sa.Engine]


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Engines of one connection each to a database without anything in it but the table ``written``."""
    opened: list[sa.Engine] = []

    def one() -> sa.Engine:
        opened.append(sa.create_engine(**server.database.sqlalchemy()))
        return opened[-1]

    with one().begin() as connection:
        connection.execute(sa.text("create table written (writer varchar(20), batch bigint)"))
    yield one
    for engine in opened:
        engine.dispose()


def written(connect: Connect) -> list[tuple[str, int]]:
    with connect().connect() as connection:
        found = connection.execute(sa.text("select writer, batch from written order by batch, writer"))
        return [(row[0], row[1]) for row in found]


def insert(connection: sa.Connection, writer: str, batch: int) -> None:
    connection.execute(
        sa.text("insert into written values (:writer, :batch)"), {"writer": writer, "batch": batch}
    )


def write(fence: Fence, writer: str, batch: int) -> bool:
    """Whether it was written; False where it was there."""
    with fence.transaction(batch) as connection:
        if connection is None:
            return False
        insert(connection, writer, batch)
        return True


def test_a_writer_goes_on_behind_the_batch_that_is_there(connect: Connect) -> None:
    first = Fence(connect(), STREAM)
    assert first.open(3) is None
    assert [write(first, "a", batch) for batch in (0, 1)] == [True, True]
    second = Fence(connect(), STREAM)
    assert second.open(5) == 1
    assert [write(second, "b", batch) for batch in (1, 2)] == [False, True]
    assert written(connect) == [("a", 0), ("a", 1), ("b", 2)]
    other = Fence(connect(), "another stream")
    assert other.open(1) is None


def test_a_replayed_batch_changes_nothing(connect: Connect) -> None:
    fence = Fence(connect(), STREAM)
    fence.open(1)
    assert [write(fence, "a", 0) for _ in range(3)] == [True, False, False]
    assert Fence(connect(), STREAM).open(2) == 0, "its successor"
    assert written(connect) == [("a", 0)]


def test_a_batch_that_fails_half_way_is_not_there_and_can_be_written_again(
    connect: Connect,
) -> None:
    fence = Fence(connect(), STREAM)
    fence.open(1)

    def half() -> None:
        with fence.transaction(0) as connection:
            assert connection is not None
            insert(connection, "half", 0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half()
    assert write(fence, "a", 0)
    assert written(connect) == [("a", 0)]


def test_an_earlier_writer_writes_nothing_and_does_not_come_back(connect: Connect) -> None:
    zombie = Fence(connect(), STREAM)
    zombie.open(1)
    Fence(connect(), STREAM).open(2)
    with raising(Fenced, STREAM, "writer epoch 1, newer epoch 2"):
        write(zombie, "zombie", 0)
    with pytest.raises(Fenced):
        zombie.open(1)
    assert written(connect) == []


def test_an_epoch_that_is_issued_again_is_another_writers(connect: Connect) -> None:
    """As by a restored catalog, while its first writer is suspended in the lost timeline."""
    suspended = Fence(connect(), STREAM)
    suspended.open(5)
    assert write(suspended, "lost", 10)
    again = Fence(connect(), STREAM)
    with raising(Fenced, STREAM, "writer epoch 5") as caught:
        again.open(5)
    assert caught.value.epoch == 5
    assert again.open(6) == 10
    with raising(Fenced, "writer epoch 5, newer epoch 6"):
        write(suspended, "lost", 11)
    assert write(again, "again", 11)
    assert written(connect) == [("lost", 10), ("again", 11)]


@BOTH_SERVERS
def test_two_writers_race_and_none_writes_after_its_successor(server: Server, connect: Connect) -> None:
    for race in range(3):
        run(server, "delete from written", "drop table if exists sluice_fence")
        reached, ended = threading.Event(), threading.Event()

        def first(engine: sa.Engine, race: int, reached: threading.Event, ended: threading.Event) -> None:
            fence = Fence(engine, STREAM)
            fence.open(1)
            try:
                for batch in count():
                    write(fence, "1", batch)
                    if batch == race:
                        reached.set()
            except Fenced:
                ended.set()

        thread = threading.Thread(target=first, args=(connect(), race, reached, ended))
        thread.start()
        assert reached.wait(30)
        fence = Fence(connect(), STREAM)
        last = fence.open(2)
        assert last is not None
        for batch in range(last + 1, last + 11):
            assert write(fence, "2", batch)
        thread.join(30)
        assert ended.is_set()
        expected = [("1", batch) for batch in range(last + 1)]
        assert written(connect) == expected + [("2", batch) for batch in range(last + 1, last + 11)]


def test_two_who_enter_at_once_where_there_is_no_table_yet(server: Server, connect: Connect) -> None:
    for _ in range(3):
        run(server, "drop table if exists sluice_fence")
        start = threading.Barrier(4)
        ends: list[int] = []

        def enter(epoch: int, fence: Fence, start: threading.Barrier, ends: list[int]) -> None:
            start.wait()
            try:
                fence.open(epoch)
            except Fenced:
                ends.append(-epoch)
            else:
                ends.append(epoch)

        fences = [Fence(connect(), STREAM) for _ in range(4)]
        threads = [
            threading.Thread(target=enter, args=(epoch, fence, start, ends))
            for epoch, fence in enumerate(fences, start=1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(map(abs, ends)) == [1, 2, 3, 4], "no writer failed with anything else"
        assert 4 in ends
        assert [write(fence, "x", 0) for fence in fences[3:]] == [True]
        run(server, "delete from written")


def test_a_zombie_that_sleeps_in_its_transaction_is_ended_and_its_successor_goes_on(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence_module, "IDLE_SECONDS", 1)
    zombie = Fence(connect(), STREAM)
    zombie.open(1)
    write(zombie, "zombie", 0)
    entered: list[int | None] = []

    def acquire() -> None:
        fence = Fence(connect(), STREAM)
        entered.append(fence.open(2))
        write(fence, "successor", 1)

    successor = threading.Thread(target=acquire)

    def sleep_in_it() -> None:
        with zombie.transaction(1) as connection:
            assert connection is not None
            insert(connection, "zombie", 1)
            successor.start()
            successor.join(30)

    with pytest.raises(sa.exc.DBAPIError) as ended:
        sleep_in_it()
    assert ended.value.connection_invalidated
    assert entered == [0]
    assert written(connect) == [("zombie", 0), ("successor", 1)]


def waits(server: Server) -> bool:
    """Whether a session waits for a row that another one holds."""
    asked = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        if server.database.kind == "postgresql"
        else "select count(*) from information_schema.innodb_trx where trx_state = 'LOCK WAIT'"
    )
    with server.engine().connect() as connection:
        return bool(connection.execute(sa.text(asked)).scalar_one())


def test_a_zombie_that_wakes_up_before_it_is_ended_is_whole_and_its_successor_comes_behind_it(
    server: Server,
    connect: Connect,
) -> None:
    zombie = Fence(connect(), STREAM)
    zombie.open(1)
    entered: list[int | None] = []
    successor = threading.Thread(target=lambda: entered.append(Fence(connect(), STREAM).open(2)))
    with zombie.transaction(0) as connection:
        assert connection is not None
        insert(connection, "zombie", 0)
        successor.start()
        # InnoDB checks again only if there was no request for a tenth of a second.
        wait_until("a session that waits for the row", lambda: waits(server), 30, 0.3)
        assert entered == []
    successor.join(30)
    assert entered == [0]
    with pytest.raises(Fenced):
        write(zombie, "zombie", 1)
    assert written(connect) == [("zombie", 0)]


def test_an_engine_that_commits_by_itself_is_refused(server: Server) -> None:
    with raising(ValueError, "AUTOCOMMIT"):
        Fence(server.engine(), STREAM).open(1)


def test_who_has_not_entered_does_not_write(server: Server, connect: Connect) -> None:
    fence = Fence(connect(), STREAM)
    with pytest.raises(LookupError):
        write(fence, "a", 0)
    fence.open(4)
    run(server, "delete from sluice_fence")
    with raising(LookupError, STREAM):
        write(fence, "a", 0)
    assert written(connect) == []


def test_a_database_that_was_put_back_is_not_written_into_as_if_nothing_were_lost(
    server: Server, connect: Connect
) -> None:
    fence = Fence(connect(), STREAM)
    fence.open(1)
    assert [write(fence, "a", batch) for batch in (0, 1, 2)] == [True, True, True]
    run(server, "update sluice_fence set batch = 1")
    with raising(LookupError, "batch 1 of writer 1", "batch 2 of writer 1"):
        write(fence, "a", 3)
    assert fence.open(2) == 1
    assert write(fence, "a", 2)


def test_a_successor_outlasts_a_zombie_that_sleeps() -> None:
    assert fence_module.IDLE_SECONDS < fence_module.LOCK_SECONDS
