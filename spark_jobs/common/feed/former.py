"""The position that a producer of release 0.1.0 saved in the catalog's PostgreSQL: read once.

Such a producer held a session's advisory lock there instead of a transactional id, so Kafka does not fence
it: its lock is taken before its position is read, and held until the row is deleted.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa

import sluice.clients.databases.postgresql  # noqa: F401 - registers the plugin that the address names
from sluice.clients.polling import wait_for
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import POSTGRESQL
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.spark.failures import Fenced

_RETRY_SECONDS = 0.5
_TABLE = "sluice_feed_positions"
_EXISTS = sa.text("select to_regclass(:name)::text")
_LOCK = sa.text("select pg_try_advisory_lock(:key)")
_LOAD = sa.text(f"select position, ids from {_TABLE} where stream = :stream")
_DELETE = sa.text(f"delete from {_TABLE} where stream = :stream")


def lock_key(stream: str) -> int:
    """The number (signed, 64 bits) of the lock of a stream's producer."""
    digest = hashlib.sha256(f"sluice/producer/{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


class Former:
    """The stream's row, over a connection that is opened when it is asked for; no other catalog has one.
    Raises SQLAlchemy's errors."""

    def __init__(self, platform: Platform, stream: str) -> None:
        self._stream = stream
        self._engine: sa.Engine | None = None
        if platform.lake.catalog.database == POSTGRESQL:
            self._engine = sa.create_engine(
                platform.lake.pyiceberg(platform.s3)["uri"],
                poolclass=sa.StaticPool,
                isolation_level="AUTOCOMMIT",
            )

    def load(self, seconds: float) -> SavedPosition | None:
        """The stream's position, None without one. Raises Fenced if the producer that saves it has not ended
        in ``seconds``."""
        if self._engine is None:
            return None
        with self._engine.connect() as connection:
            if connection.scalar(_EXISTS, {"name": _TABLE}) is None:
                return None
            key = {"key": lock_key(self._stream)}
            if not wait_for(lambda: connection.scalar(_LOCK, key), seconds, _RETRY_SECONDS):
                raise Fenced(
                    f"a producer of {self._stream} of an earlier release has not ended in {seconds:g} s. "
                    "Fix: end it, then start the stream"
                )
            row = connection.execute(_LOAD, {"stream": self._stream}).one_or_none()
        return None if row is None else parse(*row)

    def forget(self) -> None:
        """Delete the row, so that it is never read again: from now on it is too old."""
        if self._engine is None:
            return
        with self._engine.connect() as connection:
            connection.execute(_DELETE, {"stream": self._stream})

    def close(self) -> None:
        """Release the lock."""
        if self._engine is not None:
            self._engine.dispose()


def parse(text: str, ids: str) -> SavedPosition:
    """The row as it is saved now. Its producer saved every few seconds, and its ids every few minutes: the
    events since then are read from the topic, and those that come again are recognised by their ids."""
    found: dict[str, Any] = json.loads(text)
    ends, tail_starts = (
        {int(partition): offset for partition, offset in found[name].items()}
        for name in ("ends", "tail_starts")
    )
    has_all_ids = found["ids_sequence"] >= found["acknowledged"]
    return SavedPosition(
        topic_id=found["topic_id"],
        feed=found["feed"],
        position=found["position"],
        next_sequence=found["next_sequence"],
        first_sequence=found["first_sequence"],
        ends=ends,
        ids_ends=ends if has_all_ids else tail_starts,
        # Numbers without a record are of events that a killed producer had only queued.
        ids_sequence=found["next_sequence"] - 1,
        read_at=found["read_at"],
        decision=found["decision"],
        is_former=True,
        ids=json.loads(ids),
    )
