"""A streaming query that is stopped between two batches."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


class GuardedQuery:
    """A streaming query that runs ``process`` on each batch, and whose batch in flight no stop interrupts.

    ``failure``: the exception of a batch; Spark hands it on as text only.
    """

    def __init__(self, process: Callable[[DataFrame, int], None]) -> None:
        self.streaming: StreamingQuery | None = None
        self.failure: Exception | None = None
        self._process = process
        self._batch_in_flight = threading.Lock()
        self._stopping = False

    @property
    def is_active(self) -> bool:
        return self.streaming is not None and self.streaming.isActive

    def stop(self) -> None:
        """Stop after the batch in flight (``query.stop()`` interrupts it); a later batch writes nothing."""
        with self._batch_in_flight:
            self._stopping = True
        if self.streaming is not None:
            self.streaming.stop()

    def error(self) -> Exception | None:
        """The reason why it ended, None if it was stopped."""
        return self.failure or (self.streaming.exception() if self.streaming is not None else None)

    def _start(self, writer: DataStreamWriter) -> StreamingQuery:
        self.streaming = writer.foreachBatch(self._guarded).start()
        return self.streaming

    def _guarded(self, rows: DataFrame, batch: int) -> None:
        with self._batch_in_flight:
            if self._stopping:
                return
            try:
                self._process(rows, batch)
            except Exception as error:
                self.failure = error
                raise
