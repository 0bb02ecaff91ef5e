"""Files that Python wrote, as Iceberg's data files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spark_jobs.common.lake.data_files.parquet_file import DataFile


def data_files(jvm: Any, table: Any, partitions: Sequence[str], files: Iterable[DataFile]) -> Iterator[Any]:
    """Iceberg's ``DataFile`` of each, with counts and bounds from its footer as the table's properties ask
    for them. ``table``: Iceberg's; ``partitions``: its fields, as a stream.toml spells them. No I/O.

    Raises ValueError for a file of other partitions: its values would be taken for those of the table's.

    Of ``ParquetUtil`` and ``InMemoryInputFile`` in the version of local/ivy/spark.xml:
    https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/parquet/src/main/java/org/apache/iceberg/parquet/ParquetUtil.java
    """
    iceberg = jvm.org.apache.iceberg
    spec, wanted = table.spec(), iceberg.MetricsConfig.forTable(table)
    kind = spec.partitionType()
    fields = [str(field.fieldId()) for field in kind.fields()]
    for file in files:
        if (named := [name for name, _ in file.partition]) != list(partitions):
            raise ValueError(
                f"{file.uri}: a file of partitions by {', '.join(named) or 'nothing'}, and its table is "
                f"partitioned by {', '.join(partitions) or 'nothing'}: it was altered since the process "
                "started. Fix: restart the consumer"
            )
        footer = iceberg.inmemory.InMemoryInputFile(file.uri, file.footer)
        # A list of longs: Py4J would add small ones as ints.
        splits = jvm.java.util.stream.LongStream.builder()
        for split in file.splits:
            splits.add(split)
        found = (
            iceberg.DataFiles.builder(spec)
            .withPath(file.uri)
            .withFormat("parquet")
            .withFileSizeInBytes(file.size)
            .withMetrics(
                _metrics(jvm, iceberg.parquet.ParquetUtil.fileMetrics(footer, wanted), file.unbounded)
            )
            .withSplitOffsets(splits.build().boxed().toList())
        )
        if file.partition:
            values = dict(zip(fields, (value for _, value in file.partition), strict=True))
            found = found.withPartition(iceberg.SingleValueParser.fromJson(kind, json.dumps(values)))
        yield found.build()


def _metrics(jvm: Any, found: Any, unbounded: frozenset[int]) -> Any:
    """Without the bounds of these columns."""
    if not unbounded:
        return found
    bounds = []
    for of_file in (found.lowerBounds(), found.upperBounds()):
        kept = jvm.java.util.HashMap(of_file)
        for number in unbounded:
            kept.remove(number)
        bounds.append(kept)
    return jvm.org.apache.iceberg.Metrics(
        found.recordCount(),
        found.columnSizes(),
        found.valueCounts(),
        found.nullValueCounts(),
        found.nanValueCounts(),
        *bounds,
    )
