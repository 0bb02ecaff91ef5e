"""Sinks for a person who looks. They guarantee nothing, and nothing of them outlives the process.

A stream that is supervised refuses them: nobody would see what they show.
"""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TextIO

import pyarrow as pa
from pyspark.sql import DataFrame

from sluice.model.spec import query as queries
from sluice.model.spec.query import VERSION, Query

ROWS = 20


class ConsoleSink:
    """Prints up to ROWS results of each batch as a table. **No guarantee**: it knows no batch, fences
    nobody, and prints a batch again that runs again."""

    def __init__(
        self, stream: str, query_name: str, query: Query, sink: queries.Sink, out: TextIO | None = None
    ) -> None:
        """``out``: where it prints; None: wherever ``sys.stdout`` leads when it does."""
        self.name = sink.name
        self._title = f"{stream} {query_name}"
        self._keys = query.keys
        self._out = out

    def enter(self, token: int) -> int | None:
        """None: it holds nothing."""
        return None

    def write(self, batch: int, rows: DataFrame) -> bool:
        out = sys.stdout if self._out is None else self._out
        out.write(f"{self._title}, batch {batch}:\n")
        with redirect_stdout(out):
            rows.orderBy(*self._keys).show(ROWS, truncate=False)
        out.flush()
        return True

    def close(self) -> None:
        """Nothing is open."""


class MemorySink:
    """Keeps results in the driver's memory, as the view ``global_temp.<stream>_<query>``: a streaming query
    runs in a session of its own, whose other views nobody sees.

    A query that measures: of each key the newest result, with its ``version``. One that does not: all rows.
    **No guarantee**: it knows no batch and fences nobody; a batch of rows that runs again is there twice.
    All of it must fit into the driver.
    """

    def __init__(self, stream: str, query_name: str, query: Query, sink: queries.Sink) -> None:
        self.name = sink.name
        self._name = f"{stream}_{query_name}"
        self.view = f"global_temp.{self._name}"
        self._query = query
        self._newest: dict[tuple[object, ...], dict[str, object]] = {}
        self._rows: list[pa.Table] = []

    def enter(self, token: int) -> int | None:
        """None: it holds nothing."""
        return None

    def write(self, batch: int, rows: DataFrame) -> bool:
        # Not as Row: that has moments in this machine's time zone, which may have an hour twice.
        found = rows.toArrow()
        if self._query.measures:
            given = ({**row, VERSION: batch} for row in found.to_pylist())
            self._newest |= {tuple(row[key] for key in self._query.keys): row for row in given}
            schema = found.schema.append(pa.field(VERSION, pa.int64()))
            kept = pa.Table.from_pylist(list(self._newest.values()), schema)
        else:
            self._rows.append(found)
            kept = pa.concat_tables(self._rows)
        rows.sparkSession.createDataFrame(kept).createOrReplaceGlobalTempView(self._name)
        return True

    def close(self) -> None:
        """Let go of the results; the view goes with the process."""
        self._newest.clear()
        self._rows.clear()
