"""What needs no server; the rest is in tests/spark/test_jdbc_sink.py, with real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from sluice.clients.databases import results as database
from sluice.config.connection import MYSQL, Database
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.core.errors import ClientError, Missing, Refused, Unreachable
from sluice.core.queries.fence import FENCE_TABLE

COUNTS = Database(MYSQL, "h", 1, "counts", "u", "secret")


@pytest.mark.parametrize(
    ("code", "kind", "errors"),
    [
        (2003, Unreachable, ["does not answer"]),
        (1205, Unreachable, ["lock"]),
        (1146, Missing, ["table"]),
        (1049, Missing, ["does not exist"]),
        (1045, Refused, ["login", "Airflow connection"]),
        (1142, Refused, ["right", "Airflow connection"]),
        (9999, Refused, ["failed"]),
    ],
)
def test_a_driver_s_error_in_our_words(code: int, kind: type[ClientError], errors: list[str]) -> None:
    made = database.translated(COUNTS, Exception(code, "words"))
    assert type(made) is kind
    assert all(word in str(made) for word in ("counts at h:1", "words", *errors))


@pytest.mark.parametrize(
    ("column", "family"),
    [
        (sa.VARCHAR(255), "text"),
        (sa.Text(), "text"),
        (sa.BIGINT(), "bigint"),
        (mysql.BIGINT(display_width=20), "bigint"),
        (sa.INTEGER(), "integer"),
        (mysql.TINYINT(display_width=1), "boolean"),
        (mysql.TINYINT(display_width=4), "integer"),
        (postgresql.TIMESTAMP(timezone=True), "timestamp in UTC"),
        (mysql.DATETIME(fsp=6), "timestamp in UTC"),
        (mysql.DATETIME(), "DATETIME"),
        (sa.DATE(), "date"),
        (sa.NUMERIC(10, 2), "NUMERIC(10, 2)"),
    ],
)
def test_a_column_s_family(column: sa.types.TypeEngine[object], family: str) -> None:
    assert database.family_of(column) == family


def test_windows_are_chosen_by_the_database() -> None:
    statement = str(database.within(0, 60).compile(compile_kwargs={"literal_binds": True}))
    assert statement == ("window_start BETWEEN '1970-01-01 00:00:00+00:00' AND '1970-01-01 00:01:00+00:00'")


def test_what_was_made_is_said() -> None:
    assert str(database.ProvisionResult("database d at h:1", ())) == "database d at h:1: all tables exist"
    assert (
        str(database.ProvisionResult("database d at h:1", ("a", "b"))) == "database d at h:1: created a and b"
    )


def test_a_provisioning_that_is_killed_leaves_no_batch_of_a_table_without_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one finds the table, and the query would resume after a batch that the table never had."""
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with engine.begin() as connection:
        connection.execute(sa.text(f"create table {FENCE_TABLE} (stream text, epoch int, batch int)"))
        connection.execute(
            sa.text(f"insert into {FENCE_TABLE} values ('isp/hits', 5, 57), ('isp/all', 5, 9)")
        )

    @contextmanager
    def asking(given: Database) -> Iterator[sa.Engine]:
        yield engine

    def killed(engine: sa.Engine, statement: sa.Executable) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("create table hits (zipcode text)"))
        raise KeyboardInterrupt

    monkeypatch.setattr(database, "_asking", asking)
    monkeypatch.setattr(database, "_exact", lambda engine: "utf8mb4_bin")
    monkeypatch.setattr(database, "_create", killed)
    query = Query([Sink("jdbc", connection="c", table="hits")], ["zipcode"], {"hits": "count"})
    types = {"zipcode": "string", "hits": "bigint", "version": "bigint"}
    with pytest.raises(KeyboardInterrupt):
        database.provision(COUNTS, "hits", query, types, "isp/hits")
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"select stream from {FENCE_TABLE}")).scalars().all()
    assert rows == ["isp/all"]
