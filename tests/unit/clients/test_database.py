"""What needs no server; the rest is in tests/spark/test_jdbc_sink.py, with real ones."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from sluice.clients import database
from sluice.clients.errors import ClientError, Missing, Refused, Unreachable
from sluice.model.spec.connection import MYSQL, Database

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


def test_what_was_made_is_said() -> None:
    assert str(database.ProvisionResult("database d at h:1", ())) == "database d at h:1: all tables exist"
    assert (
        str(database.ProvisionResult("database d at h:1", ("a", "b"))) == "database d at h:1: created a and b"
    )
