"""``[[queries.<name>.sinks]]`` of a ``stream.toml``: where a query's results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated


class SinkKind(StrEnum):
    JDBC = "jdbc"
    KAFKA = "kafka"
    ICEBERG = "iceberg"
    FILES = "files"
    CONSOLE = "console"
    MEMORY = "memory"


# For previews; they keep nothing after the process.
DEBUG_SINKS = frozenset({SinkKind.CONSOLE, SinkKind.MEMORY})
# Sink -> the keys that it needs.
NEEDS: Mapping[SinkKind, tuple[str, ...]] = {
    SinkKind.JDBC: ("connection", "table"),
    SinkKind.KAFKA: ("topic", "partitions"),
    SinkKind.ICEBERG: ("table",),
    SinkKind.FILES: ("prefix",),
    SinkKind.CONSOLE: (),
    SinkKind.MEMORY: (),
}


@dataclass(frozen=True)
class Sink:
    """``kind``: a SinkKind, with the keys in NEEDS."""

    kind: Annotated[
        str,
        "`jdbc`, `kafka`, `iceberg`, `files`; `console` and `memory` are for "
        "[debugging](operating.md#preview-a-query); the stream's process refuses them",
    ]
    connection: Annotated[
        str,
        "`jdbc`: the id of an [Airflow connection](your-own-systems.md#a-database-for-results) to "
        "PostgreSQL, MariaDB or MySQL",
    ] = ""
    table: Annotated[
        str,
        "`jdbc`: the table there; `iceberg`: `namespace.table` in the lake, created by the queries' "
        "process. For this query alone: a rebuild removes what is not its own",
    ] = ""
    topic: Annotated[str, "`kafka`: a compacted topic for this query alone"] = ""
    partitions: Annotated[int, "`kafka`: its number of partitions"] = 0
    prefix: Annotated[
        str,
        "`files`: a folder in the lake's bucket, ending in `/`. The embedded stack grants rights below "
        "`files/` only",
    ] = ""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.table or self.topic or self.prefix}".strip()
