"""Tables that the ledger knows: a job neither creates one again nor writes to another one in its place.

The keys of the ledger's documents tell, so a role needs no right to read these: one LIST per table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from sluice.clients.s3.requests import connect, split_prefix
from sluice.config.platform import Platform
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.known_tables import FoundTable, TableState, compare
from sluice.ledger.keys import stream_prefix, table_of, tables_prefix
from spark_jobs.common.lake.tables import TableLost, TableReplaced, check_not_lost, load

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def check(spark: SparkSession, platform: Platform, stream: str, *names: str) -> None:
    """Raises TableLost for a table that the ledger knows and the catalog does not have, or has without what
    it published; TableReplaced if it has another one."""
    client = connect(platform.s3)
    for name in names:
        table = compare(name, _found(spark, name), known(client, platform.lake.ledger, stream, name))
        if table.state is TableState.LOST:
            # Says which file to register, if there is one.
            check_not_lost(spark, name)
        if table.is_problem:
            is_other = table.code is ErrorCode.TABLE_REPLACED
            raise (TableReplaced if is_other else TableLost)(table.problem)


def known(client: S3Client, ledger: str, stream: str, name: str) -> set[str]:
    """The UUIDs of the tables of this name that the ledger has seen published."""
    bucket, prefix = split_prefix(ledger)
    folder = f"{stream_prefix(prefix, stream)}/{tables_prefix(name)}"
    answer = client.list_objects_v2(Bucket=bucket, Prefix=folder)
    return {table[1] for one in answer.get("Contents", []) if (table := table_of(one["Key"]))}


def _found(spark: SparkSession, name: str) -> FoundTable | None:
    table = load(spark, name)
    if table is None:
        return None
    return FoundTable(str(table.uuid()), table.currentSnapshot() is not None)
