"""The keys by which Iceberg reads a table that it has loaded: until when they are used."""

from __future__ import annotations

import math
import time
from typing import Any

from pyspark.sql import SparkSession

from sluice.clients.catalogs.table_keys import KEYS_END, due_at, ends_of
from sluice.config.platform_sections.catalog import DELEGATION
from spark_jobs.common.lake.expected_refs import PREFIX

# Iceberg's property of a table's files: where its keys are renewed.
RENEWAL = "client.refresh-credentials-endpoint"


class LoadedKeys:
    """Those of one table, as of its last load; never due if the catalog is not asked for keys."""

    def __init__(self, spark: SparkSession) -> None:
        self._vends = bool(spark.conf.get(f"{PREFIX}{DELEGATION}", ""))
        # In seconds since 1970.
        self._due = math.inf

    @property
    def are_due(self) -> bool:
        """Whether the table is to be loaded again, with other keys."""
        return time.time() >= self._due

    def came(self, io: Any) -> None:
        """The table was loaded: these are Iceberg's files of it, with new keys."""
        if self._vends:
            self._due = _due(io)


def _due(io: Any) -> float:
    """When the keys of Iceberg's ``io`` are to be renewed, in seconds since 1970; never if it does so."""
    given = io.properties()
    if given.containsKey(RENEWAL):
        return math.inf
    said = (given, *(one.config() for one in io.credentials()))
    ends = (ends_of(one.get(KEYS_END)) for one in said)
    return due_at(time.time(), min((end for end in ends if end is not None), default=None))
