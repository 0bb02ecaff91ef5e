"""The stream's table, waited for by those that read it: the consumer makes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from sluice.model.spec.platform import CATALOG

Say = Callable[[str, str, Mapping[int, int]], None]


def await_table(spark: SparkSession, table: str, say: Say, seconds: float, stop: threading.Event) -> bool:
    """Until ``table`` is there, looked for every so many ``seconds``; False when asked to stop before.

    ``say`` is told meanwhile, as :meth:`Pulse.say` is.
    """
    while not spark.catalog.tableExists(f"{CATALOG}.{table}"):
        say("idle", f"waiting for table {table}, which the consumer makes", {})
        if stop.wait(seconds):
            return False
    return True
