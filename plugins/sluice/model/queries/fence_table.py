"""The table of a foreign database that says who may write there, and how far they got.

One row per writer: its key (``<stream>/<query>``), the owner's token, and the last batch that is there. A
step of the DAG makes it, or the first writer; both as it is written here.
"""

from __future__ import annotations

FENCE_TABLE = "sluice_fence"
_DDL = f"""
create table if not exists {FENCE_TABLE} (
    stream varchar(255) not null primary key,
    token bigint not null,
    batch bigint not null
)"""


def fence_ddl(dialect: str) -> str:
    """The statement that makes it where it is missing; ``dialect`` is SQLAlchemy's name of it."""
    # In MySQL and MariaDB a server may have been told otherwise: keys told apart by each character, and an
    # engine with transactions.
    mysql = " engine = InnoDB character set utf8mb4 collate utf8mb4_bin"
    return _DDL if dialect == "postgresql" else _DDL + mysql


def fence_key(stream: str, query: str) -> str:
    """The key of a query's row. Raises ValueError where it is longer than the column."""
    key = f"{stream}/{query}"
    if len(key) > 255:
        raise ValueError(f"{key}: longer than 255 characters; give stream or query a shorter name")
    return key
