"""The table in a database of results by which it refuses a writer that was replaced, and a batch twice."""

from __future__ import annotations

FENCE_TABLE = "sluice_fence"
_DDL = f"""
create table if not exists {FENCE_TABLE} (
    stream varchar(255) not null primary key,
    epoch bigint not null,
    batch bigint not null
)"""


def fence_ddl(dialect: str) -> str:
    """``dialect``: SQLAlchemy's name."""
    # A MySQL or MariaDB server may have other defaults than exact keys and an engine with transactions.
    mysql = " engine = InnoDB character set utf8mb4 collate utf8mb4_bin"
    return _DDL if dialect == "postgresql" else _DDL + mysql


def fence_key(stream: str, query: str) -> str:
    """Raises ValueError if it is longer than the column."""
    key = f"{stream}/{query}"
    if len(key) > 255:
        raise ValueError(f"{key}: longer than 255 characters. Fix: give stream or query a shorter name")
    return key
